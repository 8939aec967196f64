"""One stream of sound: samples in, events out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch

from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake, Samples
from asr.events import Event, Partial
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import SpeechModel
from asr.recognition.options import StreamOptions
from asr.recognition.pace import Pace
from asr.recognition.second_pass import read_utterances
from asr.recognition.segmenter import Segmenter, hotwords_of
from asr.recognition.segments import Utterance
from asr.search.hotwords import Hotword
from asr.writing.rewriting import Rewriter, rewrite

TOO_SLOW = "too slow for partials by the attention decoder: they are greedy CTC until there is room again"
ROOM_AGAIN = "room again: partials are by the attention decoder from the next utterance on"


class Stream:
    """One stream of sound: samples in, events out. Memory and time per chunk do not grow with its length.

    Calls are serialised: several threads may use one stream.

    Args:
        model: the model, shared by all streams.
        options: how it is decoded.
        warn: is told a line when partials cannot keep up.
        gate: the speech gate, if it is asked; without it there is a first pass in any case.
        together: utterances that are read at a time: with more than one, finals wait for others, which is faster.
    """

    def __init__(
        self,
        model: SpeechModel,
        options: StreamOptions,
        warn: Callable[[str], None] | None = None,
        gate: SpeechGate | None = None,
        together: int = 1,
    ) -> None:
        self.model, self.options = model, options
        self._together = together
        self._unread: list[Utterance] = []
        self._segmenter = Segmenter(model, options, gate)
        self._rewriter = Rewriter(options.writing)
        self.listen_for(options.hotwords)
        self._warn, self._pace = warn, Pace() if options.partials == "auto" else None
        self._resampler: StreamResampler | None = None
        self._intake: Intake | None = None
        self._finished = False
        self._lock = threading.Lock()

    @property
    def chunks(self) -> int:
        """Chunks heard so far."""
        return self._segmenter.chunks

    @property
    def sample_rate(self) -> int:
        """Hertz at which the model hears."""
        return self.model.config.features.sample_rate

    @property
    def seconds(self) -> float:
        """Stream time: how much sound has been accepted."""
        return self._segmenter.clock.end

    def listen_for(self, hotwords: Iterable[Hotword | str]) -> None:
        """Takes other hotwords from here on: finals at once, partials from the next utterance on.

        Raises:
            AsrError: there are too many, or finals are not the attention decoder's.
        """
        self._hotwords = hotwords_of(self.model, self.options.second_pass, hotwords)
        self._segmenter.hotwords = self._hotwords

    def accept(self, samples: Samples, rate: float) -> list[Event]:
        """Takes samples at `rate` hertz, an array or a tensor of any usual type and layout (see
        `asr.audio.samples.as_array`); returns what they bring about.

        Raises:
            AudioError: these are no samples, or it is no sample rate.
            ValueError: the stream is finished, or the rate has changed.
        """
        with self._lock:
            if self._finished:
                raise ValueError("this stream is finished: open another one")
            begun = time.perf_counter()
            mono = self._take_in(samples, rate)
            events = self._feed(self._resampler(mono))
            took = time.perf_counter() - begun
            if self._pace is not None:
                self._adapt(self._pace, len(mono) / rate, took)
            return events

    def hurry(self) -> None:
        """The end is near: partials would only hold it up, and there are no more. May be called from anywhere."""
        self._segmenter.hurries = True

    def finish(self) -> list[Event]:
        """Ends the stream and returns its last events. A second call returns nothing."""
        with self._lock:
            if self._finished:
                return []
            self._finished = True
            rest = np.zeros(0, np.float32)
            if self._resampler is not None:
                rest = self._resampler(rest, last=True)
            return self._feed(rest) + self._end()

    def _take_in(self, samples: Samples, rate: float) -> np.ndarray:
        """Clean mono samples at `rate`, with which the resampler goes on."""
        if self._resampler is None:
            self._resampler = StreamResampler(rate, self.model.config.features.sample_rate)
            self._intake = Intake(rate, self._warn)
        elif self._resampler.source_rate != rate:
            raise ValueError(f"the stream began at {self._resampler.source_rate} Hz and goes on at {rate} Hz")
        return self._intake(samples)

    @torch.inference_mode()
    def _feed(self, samples: np.ndarray) -> list[Event]:
        """Goes on by samples at the model's rate."""
        return self._tell(self._segmenter.accept(torch.from_numpy(samples)))

    @torch.inference_mode()
    def _end(self) -> list[Event]:
        return self._tell(self._segmenter.finish()) + self._read()

    def _tell(self, found: Iterable[Utterance | Partial]) -> list[Event]:
        """The events of what was found."""
        events: list[Event] = []
        for one in found:
            if isinstance(one, Partial):
                events += self._rewriter.partial(one)
                continue
            self._rewriter.begin()
            self._unread.append(one)
            if len(self._unread) >= self._together:
                events += self._read()
        return events

    def _read(self) -> list[Event]:
        """The events of utterances that have not been read yet."""
        unread, self._unread = self._unread, []
        read = zip(unread, read_utterances(self.model, unread, self.options, self._hotwords), strict=True)
        events = (event for one, words in read for event in self._segmenter.clock.events(one.segment, words))
        return rewrite(self.options.writing, events)

    def _adapt(self, pace: Pace, sound: float, took: float) -> None:
        """Takes partials from where the machine has the time to."""
        before = pace.easy
        pace.keep(sound, took)
        if pace.easy != before:
            self._segmenter.read_partials(decoder=not pace.easy)
            if self._warn is not None:
                self._warn(TOO_SLOW if pace.easy else ROOM_AGAIN)

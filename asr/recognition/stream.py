"""One stream of sound: samples in, events out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake, Samples
from asr.events import Event, Partial
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import Chunk, SpeechModel
from asr.recognition.endpoint import EndpointRules
from asr.recognition.first_pass import FirstPass
from asr.recognition.pace import Pace
from asr.recognition.partials import Partials
from asr.recognition.second_pass import read_utterances
from asr.recognition.segments import Clock, Segments, Utterance

FALLEN_BACK = "too slow for partials by the attention decoder: from here on they are greedy CTC"


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is decoded.

    Attributes:
        chunk_ms: milliseconds that are emitted at a time.
        look_ahead_ms: milliseconds after each chunk that it may see.
        second_pass: finals are read again by the attention decoder; off: finals are the greedy CTC text.
        partials: what is said of the open utterance after each chunk: `off`: nothing; `decoder`: what the attention
            decoder reads in the memory so far; `ctc`: greedy CTC, for slow machines; `auto`: the decoder until the
            machine turns out too slow, then CTC.
        endpoint: when utterances end; None: the whole stream is one utterance.
        vad: a gate tells speech from noise: noise neither keeps utterances open nor becomes words.
    """

    chunk_ms: float = 320
    look_ahead_ms: float = 320
    second_pass: bool = True
    partials: Literal["off", "auto", "decoder", "ctc"] = "off"
    endpoint: EndpointRules | None = field(default_factory=EndpointRules)
    vad: bool = False

    def positions(self, model: SpeechModel) -> tuple[int, int]:
        """Chunk and look-ahead in positions of a model."""
        return max(1, model.positions(self.chunk_ms)), model.positions(self.look_ahead_ms)


# For recordings, where nobody waits for partials: words wait as long as with the defaults, and cost a quarter less.
RECORDED = StreamOptions(chunk_ms=640, look_ahead_ms=0)


class Stream:
    """One stream of sound: samples in, events out. Memory and time per chunk do not grow with its length.

    Calls are serialised: several threads may use one stream.

    Args:
        model: the model, shared by all streams.
        options: how it is decoded.
        warn: is told a line when partials cannot keep up.
        gate: the speech gate, if it is asked.
        together: utterances that are read at a time: with more than one, finals wait for others, which is faster.

    Attributes:
        chunks: chunks decoded so far.
    """

    def __init__(
        self,
        model: SpeechModel,
        options: StreamOptions,
        warn: Callable[[str], None] | None = None,
        gate: SpeechGate | None = None,
        together: int = 1,
    ) -> None:
        self.model, self.options, self.chunks = model, options, 0
        self._together = together
        self._unread: list[Utterance] = []
        chunk, look_ahead = options.positions(model)
        self._first = FirstPass(model, chunk, look_ahead)
        self._segments = Segments(model, options.endpoint, gate, look_ahead)
        decoder = options.partials in ("decoder", "auto") and model.decoder is not None
        self._partials = None if options.partials == "off" else Partials(model, self._segments, look_ahead, decoder)
        self._warn, self._pace = warn, Pace() if options.partials == "auto" else None
        self._resampler: StreamResampler | None = None
        self._intake: Intake | None = None
        self._finished = False
        self._lock = threading.Lock()

    @property
    def sample_rate(self) -> int:
        """Hertz at which the model hears."""
        return self.model.config.features.sample_rate

    @property
    def seconds(self) -> float:
        """Stream time: how much sound has been accepted."""
        return self._first.samples / self.sample_rate

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
            if self._pace is not None and not self._pace.keeps_up(len(mono) / rate, took):
                self._fall_back()
            return events

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
        heard = self._first.accept(torch.from_numpy(samples))
        return [event for log_power, chunks in heard for event in self._hear(log_power, chunks)]

    @torch.inference_mode()
    def _end(self) -> list[Event]:
        events = self._hear(*self._first.finish(), final=True)
        for utterance in self._segments.finish(self._sounding):
            events += self._ended(utterance)
        return events + self._read()

    def _hear(self, log_power: Tensor, chunks: list[Chunk], final: bool = False) -> list[Event]:
        """Events of frames and the chunks that they complete: utterances that end, partials of the open one."""
        self._segments.hear(log_power)
        if self._partials is not None:
            self._partials.hear(log_power, final=final)
        events: list[Event] = []
        for chunk in chunks:
            self.chunks += 1
            if self._partials is not None:
                self._partials.append(chunk)
            for utterance in self._segments.accept(chunk, self._sounding):
                events += self._ended(utterance)
            if self._partials is not None and (said := self._partials.update()) is not None:
                events.append(Partial(*said, self._clock.at(self._segments.floor), self._clock.at(self._segments.now)))
            self._segments.forget()
            if self._partials is not None:
                self._partials.forget()
        return events

    @property
    def _sounding(self) -> int:
        """Frames of the stream so far that are no padding."""
        return self._first.samples // self.model.config.features.hop

    @property
    def _clock(self) -> Clock:
        return Clock(self.model.position_seconds, self.seconds)

    def _ended(self, utterance: Utterance) -> list[Event]:
        """What is to be told when an utterance has ended."""
        if self._partials is not None:
            utterance = replace(utterance, draft=self._partials.pieces)
            self._partials.close()
        self._unread.append(utterance)
        return self._read() if len(self._unread) >= self._together else []

    def _read(self) -> list[Event]:
        """The events of utterances that have not been read yet."""
        unread, self._unread = self._unread, []
        read = zip(unread, read_utterances(self.model, unread, self.options.second_pass), strict=True)
        return [event for one, words in read for event in self._clock.events(one.segment, words)]

    def _fall_back(self) -> None:
        self._pace = None
        self._partials.fall_back()
        if self._warn is not None:
            self._warn(FALLEN_BACK)

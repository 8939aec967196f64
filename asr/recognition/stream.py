"""One stream of sound: samples in, events out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake, Samples
from asr.events import Endpoint, Event, Final, Partial, Word
from asr.nn.encoder import SUBSAMPLING
from asr.nn.gate import GateTrack, SpeechGate
from asr.nn.level import loud_from
from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import Endpointer, EndpointRules, Segment
from asr.recognition.pace import Pace
from asr.recognition.partial import CtcPartial, DecoderPartial, PartialHypothesis
from asr.recognition.revision import LOOK_AHEAD, Revision
from asr.recognition.second_pass import ReadWord, read_ctc, read_utterance
from asr.search.witness import WORD_SPEECH, heard, hears_speech, writes

TAIL = 0.25  # s of zeros after the end of a stream, so that the words still inside come out
FALLEN_BACK = "too slow for partials by the attention decoder: from here on they are greedy CTC"
SPEECH = 0.5  # probability of speech (gate) from which on a loud position has sound
HEARD = 0.5  # posterior of all pieces together from which on CTC hears something in a position


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


# For recordings, where nobody waits for partials: words wait as long as with the defaults, and cost a quarter less.
RECORDED = StreamOptions(chunk_ms=640, look_ahead_ms=0)


class Stream:
    """One stream of sound: samples in, events out. Memory and time per chunk do not grow with its length.

    Calls are serialised: several threads may use one stream.

    Attributes:
        chunks: chunks decoded so far.
    """

    def __init__(
        self,
        model: SpeechModel,
        options: StreamOptions,
        warn: Callable[[str], None] | None = None,
        gate: SpeechGate | None = None,
    ) -> None:
        self.model, self.options, self.chunks = model, options, 0
        self._warn, self._pace = warn, Pace() if options.partials == "auto" else None
        self._with_decoder = options.partials in ("decoder", "auto") and model.decoder is not None
        chunk = max(1, model.positions(options.chunk_ms))
        self._state = model.start(chunk=chunk, look_ahead=model.positions(options.look_ahead_ms))
        self._endpointer = None if options.endpoint is None else Endpointer(options.endpoint, model.position_seconds)
        self._gate = None if gate is None else GateTrack(gate)
        self._resampler: StreamResampler | None = None
        self._intake: Intake | None = None
        self._device = model.encoder.ctc.weight.device
        sizes = model.config
        self._log_power = torch.zeros(1, 0, sizes.features.mels, device=self._device)  # of the open utterance
        self._log_probs = torch.zeros(0, sizes.encoder.vocabulary, device=self._device)  # likewise, CTC
        self._memory = torch.zeros(1, 0, sizes.encoder.d_model, device=self._device)  # likewise, for partials
        sees_less = self._with_decoder and self._state.look_ahead < LOOK_AHEAD
        self._revision = Revision(model) if sees_less else None
        self._revised = 0  # position up to which the memory is revised
        self._partial: PartialHypothesis | None = None
        self._partial_start = 0
        self._silent = 0  # chunks without sound since the last one with sound
        self._partial_until = 0  # position up to which it has been updated
        self._base = 0  # position at which all three begin
        self._samples = 0
        self._finished = False
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Stream time: how much sound has been accepted."""
        return self._samples / self.model.config.features.sample_rate

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
            rest = np.zeros(0, np.float32)
            if self._resampler is not None:
                rest = self._resampler(rest, last=True)
            events = self._feed(rest)
            real = self._samples
            silence = np.zeros(round(TAIL * self.model.config.features.sample_rate), np.float32)
            events += self._advance(silence, final=True)
            self._samples, self._finished = real, True
            return events

    def _take_in(self, samples: Samples, rate: float) -> np.ndarray:
        """Clean mono samples at `rate`, with which the resampler goes on."""
        if self._resampler is None:
            self._resampler = StreamResampler(rate, self.model.config.features.sample_rate)
            self._intake = Intake(rate, self._warn)
        elif self._resampler.source_rate != rate:
            raise ValueError(f"the stream began at {self._resampler.source_rate} Hz and goes on at {rate} Hz")
        return self._intake(samples)

    def _feed(self, samples: np.ndarray) -> list[Event]:
        """Goes on by samples at the model's rate: no more at once than a chunk, so that blocks of any size give the
        same (the level that loudness is judged by is the one that is known after each chunk).
        """
        size = round(self._state.chunk * self.model.position_seconds * self.model.config.features.sample_rate)
        return [event for i in range(0, len(samples), size) for event in self._advance(samples[i : i + size])]

    @torch.inference_mode()
    def _advance(self, samples: np.ndarray, final: bool = False) -> list[Event]:
        if not final:
            self._samples += len(samples)
        sound = torch.from_numpy(samples).to(self._device)[None]
        if self._revision is not None:
            self._revision.accept(sound, final=final)
        output, self._state = self.model(sound, self._state, final=final)
        self._log_power = torch.cat([self._log_power, output.log_power], 1)
        if self._gate is not None:
            self._gate.accept(output.log_power)
        events: list[Event] = []
        for log_probs, memory in zip(
            output.log_probs[0].split(self._state.chunk), output.memory.split(self._state.chunk, 1), strict=True
        ):
            if len(log_probs):  # splitting nothing gives one empty part
                events += self._chunk(log_probs, memory)
        if final:
            segment = Segment(0, self._now, "end") if self._endpointer is None else self._endpointer.finish()
            events += [] if segment is None else self._read(segment)
        if self._endpointer is not None:
            self._forget(self._endpointer.floor)
        return events

    @property
    def _now(self) -> int:
        """The position up to which the stream has been emitted."""
        return self._base + len(self._log_probs)

    def _chunk(self, log_probs: Tensor, memory: Tensor) -> list[Event]:
        """Events of one chunk: utterances that end in it, then the partial of the one that is open after it."""
        begin = len(self._log_probs)
        self.chunks += 1
        self._log_probs = torch.cat([self._log_probs, log_probs])
        if self.options.partials != "off":
            self._memory = torch.cat([self._memory, memory], 1)
        events: list[Event] = []
        if self._endpointer is not None:
            frames = self._log_power[:, begin * SUBSAMPLING : len(self._log_probs) * SUBSAMPLING]
            power = self.model.features.mean_square(frames)[0].view(-1, SUBSAMPLING).mean(1)
            audible = loud = power > loud_from(self._state.level)
            hears = heard(log_probs) > HEARD
            if (speech := self._speech(self._now - len(log_probs), self._now)) is not None:
                loud, hears = loud & (speech > SPEECH), hears & (speech > WORD_SPEECH)
            audible, loud, hears = audible.tolist(), loud.tolist(), hears.tolist()
            self._silent = 0 if any(loud) or any(hears) else self._silent + 1
            for position in zip(loud, hears, power.tolist(), audible, strict=True):
                segment = self._endpointer.accept(*position)
                if segment is not None:
                    events += self._read(segment)
        if self.options.partials != "off":
            revised = self._revise()
            events += self._update_partial(revised)
        return events

    def _revise(self) -> bool:
        """Revises the memory as far as what had been heard when this chunk was emitted allows; whether it did."""
        if self._revision is None:
            return False
        end = min(self._revision.until(self._now + self._state.look_ahead), self._now)
        start, self._revised = max(self._revised, self._base), max(self._revised, end)
        if start >= end:
            return False
        self._memory[:, start - self._base : end - self._base] = self._revision.between(start, end)
        if self._partial is not None:
            start = max(start, self._partial_start)
            end = min(end, self._partial_until)
            if start < end:
                self._partial.revise(self._revision.between(start, end), start - self._partial_start)
        return True

    def _speech(self, start: int, end: int) -> Tensor | None:
        """What the gate says of positions `[start, end)`, given what had been heard when they were emitted."""
        if self._gate is None:
            return None
        heard = min(end, self._now) + self._state.look_ahead
        return self._gate.between(start, end, heard * SUBSAMPLING)

    def _update_partial(self, revised: bool) -> list[Event]:
        """The partial of the open utterance, if its text has changed; `revised`: so has the memory behind it."""
        start = 0
        if self._endpointer is not None:
            if not self._endpointer.open:
                return []
            start = self._endpointer.floor
        log_probs = self._log_probs[start - self._base :]
        if not (hears_speech(heard(log_probs), self._speech(start, self._now)) and writes(log_probs)):
            return []
        if self._partial is None:
            self._partial = (DecoderPartial if self._with_decoder else CtcPartial)(self.model)
            self._partial_start = self._partial_until = start
        elif self._silent > 1 and not revised:  # nothing new since the last update
            return []
        before, fresh = self._partial.text, self._partial_until - self._base
        self._partial.update(self._memory[:, fresh:], self._log_probs[fresh:])
        self._partial_until = self._now
        if self._partial.text == before:
            return []
        start_time, end_time = (self._time(position) for position in (start, self._now))
        return [Partial(self._partial.text, self._partial.stable, start_time, end_time)]

    def _fall_back(self) -> None:
        """Partials by CTC from now on, after what the decoder has written of the open utterance."""
        self._pace, self._with_decoder, self._revision = None, False, None
        if self._partial is not None:
            self._partial = CtcPartial(self.model, self._partial.text)
        if self._warn is not None:
            self._warn(FALLEN_BACK)

    def _time(self, position: float) -> float:
        """Stream time of a position (seconds), not beyond the sound that there is."""
        return min(position * self.model.position_seconds, self.seconds)

    def _read(self, segment: Segment) -> list[Event]:
        """The events of an utterance that has ended."""
        start, end = segment.start - self._base, segment.end - self._base
        if self.options.second_pass:
            frames = self._log_power[:, start * SUBSAMPLING : end * SUBSAMPLING]
            sounding = self._samples // self.model.config.features.hop - segment.start * SUBSAMPLING
            draft = [] if self._partial is None else self._partial.pieces
            speech = self._speech(segment.start, segment.end)
            words = read_utterance(self.model, frames, max(1, sounding), draft, speech) if end > start else []
        else:
            words = read_ctc(self.model, self._log_probs[start:end], self._speech(segment.start, segment.end))
        self._partial = None
        events: list[Event] = [Endpoint(self._time(segment.end), segment.reason)]
        if words:
            timed = tuple(self._word(word, segment.start) for word in words)
            text = " ".join(word.text for word in words)
            events.insert(0, Final(text, self._time(segment.start), self._time(segment.end), timed))
        return events

    def _word(self, word: ReadWord, offset: int) -> Word:
        start, end = self._time(offset + word.span.start), self._time(offset + word.span.end)
        return Word(word.text, start, end, word.confidence)

    def _forget(self, position: int) -> None:
        """Lets go of frames and posteriors before a position: no utterance will need them."""
        drop = position - self._base
        if not drop:
            return
        self._log_power = self._log_power[:, drop * SUBSAMPLING :].clone()
        self._log_probs = self._log_probs[drop:].clone()
        self._memory = self._memory[:, drop:].clone()
        if self._gate is not None:
            self._gate.forget(position)
        if self._revision is not None:
            self._revision.forget(position)
        self._base = position

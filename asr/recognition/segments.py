"""Utterances of a stream: where level, CTC or gate say that they begin and end, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from asr.events import Endpoint, Event, Final, Word
from asr.nn.encoder import SUBSAMPLING
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import Chunk, SpeechModel
from asr.recognition.endpoint import Endpointer, EndpointRules, Segment
from asr.recognition.track import GateTrack, Track
from asr.search.alignment import Span
from asr.search.ctc import speech_posterior
from asr.search.witness import WORD_SPEECH

SPEECH = 0.5  # probability of speech (gate) from which on a loud position has sound, and speech is heard without CTC
HEARD = 0.5  # posterior of all pieces together from which on CTC hears something in a position


@dataclass(frozen=True)
class ReadWord:
    """A word, its span in positions of the utterance, and how sure the decoder is (0 to 1)."""

    text: str
    span: Span
    confidence: float

    def moved(self, positions: int) -> ReadWord:
        """The same word, so many positions later."""
        return replace(self, span=replace(self.span, start=self.span.start + positions, end=self.span.end + positions))


@dataclass(frozen=True)
class Utterance:
    """What is known of an utterance that has ended.

    Attributes:
        segment: where it lies in the stream, and why it ended.
        log_power: `(time, mels)` log10 power.
        log_probs: `(positions, vocabulary)`, CTC of the first pass; no positions where it was not encoded.
        heard: `(positions,)`, True where something was heard: by CTC, or by the gate where nothing was encoded.
        sounding: leading frames that are no padding, at least 1.
        speech: `(positions,)` probability of speech, by the gate; None: it is not asked.
        draft: pieces of the last partial, which make reading faster and change nothing.
    """

    segment: Segment
    log_power: Tensor
    log_probs: Tensor
    heard: Tensor
    sounding: int
    speech: Tensor | None = None
    draft: Sequence[int] = ()

    @property
    def positions(self) -> int:
        return len(self.log_power) // SUBSAMPLING


class Segments:
    """The utterances of one stream, out of the chunks that the encoder emits.

    It holds frames and posteriors from the beginning of the utterance that is open, or that may yet begin.

    Args:
        model: the model.
        rules: when utterances end; None: the whole stream is one utterance.
        gate: tells speech from noise; it may be None where chunks are encoded and `vad` is off.
        look_ahead: positions that each chunk has seen after it.
        vad: noise, by the gate, neither keeps utterances open nor becomes words.

    Attributes:
        silent: chunks without sound since the last one with sound.
    """

    def __init__(
        self, model: SpeechModel, rules: EndpointRules | None, gate: SpeechGate | None, look_ahead: int, vad: bool
    ) -> None:
        sizes, device = model.config, model.device
        self.model, self.silent = model, 0
        self._look_ahead, self._vad, self._asked = look_ahead, vad, 0
        self._endpointer = None if rules is None else Endpointer(rules, model.position_seconds)
        self._gate = None if gate is None else GateTrack(gate)
        self._frames = Track(torch.zeros(0, SUBSAMPLING, sizes.features.mels, device=device))
        self._log_probs = Track(torch.zeros(0, sizes.encoder.vocabulary, device=device))
        self._heard = Track(torch.zeros(0, dtype=torch.bool, device=device))

    @property
    def now(self) -> int:
        """The position up to which the stream has been emitted."""
        return self._frames.end

    @property
    def floor(self) -> int:
        """Where the open utterance begins; where none is open, the earliest position that may become part of one."""
        return 0 if self._endpointer is None else self._endpointer.floor

    @property
    def open(self) -> bool:
        """Whether an utterance has begun and not ended."""
        return self._endpointer is None or self._endpointer.open

    def hear(self, log_power: Tensor) -> None:
        """The next frames `(1, time, mels)` of log10 power, before the chunk that they complete."""
        if self._gate is not None:
            self._gate.accept(log_power)

    def awake(self, chunk: Chunk) -> bool:
        """Whether an utterance is open, or may begin in the next chunk or soon after; `accept` has not seen it yet."""
        start, self._asked = self._asked, self._asked + chunk.own
        if self.open or self._gate is None:
            return True
        power = self.model.power(chunk.window)[0]
        stirs = self._gate.between(start, start + len(power)) > WORD_SPEECH
        return bool((stirs if self._vad else stirs | (power > chunk.loud_from)).any())

    def accept(self, chunk: Chunk, sounding: int) -> Iterator[Utterance]:
        """Utterances that end in the next chunk; `sounding`: frames of the stream so far that are no padding."""
        start, log_probs = self.now, chunk.log_probs[0]
        self._log_probs.append(log_probs)
        self._frames.append(chunk.log_power[0].unflatten(0, (-1, SUBSAMPLING)))
        power = self.model.power(chunk.log_power)[0]
        audible = loud = power > chunk.loud_from
        speech = self._judged(start, self.now)
        hears = speech_posterior(log_probs) > HEARD if len(log_probs) else speech > SPEECH
        if self._vad:
            loud, hears = loud & (speech > SPEECH), hears & (speech > WORD_SPEECH)
        self._heard.append(hears)
        if self._endpointer is None:
            return
        evidence = [column.tolist() for column in (loud, hears, power, audible)]
        self.silent = 0 if any(evidence[0]) or any(evidence[1]) else self.silent + 1
        for position in zip(*evidence, strict=True):
            if (segment := self._endpointer.accept(*position)) is not None:
                yield self._utterance(segment, sounding)

    def finish(self, sounding: int) -> Iterator[Utterance]:
        """What is open at the end of the stream."""
        segment = Segment(0, self.now, "end") if self._endpointer is None else self._endpointer.finish()
        if segment is not None:
            yield self._utterance(segment, sounding)

    def log_probs(self, start: int) -> Tensor:
        """CTC `(positions, vocabulary)` from a position on."""
        return self._log_probs.between(start, self.now)

    def speech(self, start: int, end: int) -> Tensor | None:
        """What the gate says of positions `[start, end)`, given what had been heard when they were emitted, if it has
        a say in what becomes words.
        """
        return self._judged(start, end) if self._vad else None

    def _judged(self, start: int, end: int) -> Tensor | None:
        if self._gate is None:
            return None
        return self._gate.between(start, end, (min(end, self.now) + self._look_ahead) * SUBSAMPLING)

    def forget(self) -> None:
        """Lets go of what no utterance will need."""
        for track in (self._frames, self._log_probs, self._heard, self._gate):
            if track is not None:
                track.forget(self.floor)

    def _utterance(self, segment: Segment, sounding: int) -> Utterance:
        start, end = segment.start, segment.end
        return Utterance(
            segment,
            self._frames.between(start, end).flatten(0, 1),
            self._log_probs.between(start, end),
            self._heard.between(start, end),
            max(1, sounding - start * SUBSAMPLING),
            self.speech(start, end),
        )


@dataclass(frozen=True)
class Clock:
    """Positions as stream time.

    Attributes:
        position: seconds of one.
        end: seconds of sound that there are; no time lies beyond.
    """

    position: float
    end: float

    def at(self, position: float) -> float:
        """Stream time of a position (seconds)."""
        return min(position * self.position, self.end)

    def events(self, segment: Segment, words: Sequence[ReadWord]) -> list[Event]:
        """The events of an utterance whose words have been read."""
        start, end = self.at(segment.start), self.at(segment.end)
        endpoint = Endpoint(end, segment.reason)
        if not words:
            return [endpoint]
        times = [(self.at(segment.start + word.span.start), self.at(segment.start + word.span.end)) for word in words]
        timed = tuple(
            Word(word.text, min(first, end), min(last, end), word.confidence)
            for word, (first, last) in zip(words, times, strict=True)
        )
        return [Final(" ".join(word.text for word in words), start, end, timed), endpoint]

"""What is said of the open utterance after each chunk."""

from __future__ import annotations

import torch

from asr.nn.speech_model import Chunk, SpeechModel
from asr.recognition.partial import CtcPartial, DecoderPartial, PartialHypothesis
from asr.recognition.revision import LOOK_AHEAD, Revision
from asr.recognition.segments import Segments
from asr.recognition.track import Track
from asr.search.ctc import speech_posterior
from asr.search.hotwords import Hotwords
from asr.search.witness import hears_speech, writes


class Partials:
    """The partials of one stream: the memory that they read, revised as more becomes known, and the hypothesis.

    Args:
        model: the model.
        segments: the utterances of the stream.
        look_ahead: positions that each chunk has seen after it.
        decoder: the attention decoder reads; else greedy CTC does.

    Attributes:
        start: where the utterance begins of which something is said.
    """

    def __init__(self, model: SpeechModel, segments: Segments, look_ahead: int, decoder: bool) -> None:
        self.model, self.start = model, 0
        self._segments, self._look_ahead, self._decoder = segments, look_ahead, decoder
        self._revises = decoder and look_ahead < LOOK_AHEAD
        self._revision: Revision | None = None
        self._revised = 0  # position up to which the memory is revised
        self._memory = Track(torch.zeros(0, model.config.encoder.d_model, device=model.device))
        self._hypothesis: PartialHypothesis | None = None
        self._until = 0  # position up to which the hypothesis has heard

    @property
    def pieces(self) -> list[int]:
        """The decoder's pieces of what was said last."""
        return [] if self._hypothesis is None else self._hypothesis.pieces

    def append(self, chunk: Chunk) -> None:
        """The memory of the next chunk; where it has none, what comes after it begins anew."""
        start = self._memory.end
        if not chunk.memory.shape[1]:
            self._memory, self._revision = Track(self._memory.values[:0], start + chunk.own), None
            return
        self._memory.append(chunk.memory[0])
        if self._revises:
            if self._revision is None:
                self._revision = Revision(self.model, start)
            self._revision.hear(chunk.window, start)

    def update(self, hotwords: Hotwords | None = None) -> tuple[str, str] | None:
        """The text of the open utterance and its stable prefix, if it has changed with the last chunk.

        `hotwords`: what a text that begins now leans towards.
        """
        segments, revised = self._segments, self._revise()
        if not segments.open:
            return None
        start, now = max(segments.floor, self._memory.start), segments.now
        log_probs = segments.log_probs(start)
        if not (hears_speech(speech_posterior(log_probs), segments.speech(start, now)) and writes(log_probs)):
            return None
        if self._hypothesis is None:
            self._hypothesis = DecoderPartial(self.model, hotwords) if self._decoder else CtcPartial(self.model)
            self.start = self._until = start
        elif segments.silent > 1 and not revised:  # nothing new since the last update
            return None
        hypothesis, before = self._hypothesis, self._hypothesis.text
        hypothesis.update(self._memory.between(self._until, now)[None], segments.log_probs(self._until))
        self._until = now
        return None if hypothesis.text == before else (hypothesis.text, hypothesis.stable)

    def close(self) -> None:
        """The utterance has ended."""
        self._hypothesis = None

    def read(self, decoder: bool) -> None:
        """By the decoder from the next utterance on, or by greedy CTC at once, after what the decoder has written."""
        self._decoder, self._revises, self._revision = decoder, decoder and self._look_ahead < LOOK_AHEAD, None
        if self._hypothesis is not None and not decoder:
            self._hypothesis = CtcPartial(self.model, self._hypothesis.text)

    def forget(self) -> None:
        """Lets go of what no utterance will need."""
        self._memory.forget(self._segments.floor)
        if self._revision is not None:
            self._revision.memory.forget(self._segments.floor)

    def _revise(self) -> bool:
        """Revises the memory as far as what had been heard when this chunk was emitted allows; whether it did."""
        if self._revision is None:
            return False
        end = min(self._revision.until(self._segments.now + self._look_ahead), self._segments.now)
        start, self._revised = max(self._revised, self._memory.start), max(self._revised, end)
        if start >= end:
            return False
        better = self._revision.memory
        self._memory.replace(start, better.between(start, end))
        if self._hypothesis is not None:
            start, end = max(start, self.start), min(end, self._until)
            if start < end:
                self._hypothesis.revise(better.between(start, end)[None], start - self.start)
        return True

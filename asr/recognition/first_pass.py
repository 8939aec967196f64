"""The first pass: samples to the chunks that utterances are found in."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from asr.nn.encoder import SUBSAMPLING, EncoderState
from asr.nn.speech_model import Chunk, SpeechModel

BLANK_ONLY = -100.0  # log-probability of every piece in silence
TAIL = 0.25  # s of zeros after the end of a stream, so that the words still inside come out
BEFORE = 0.6  # s that are encoded before what wakes the encoder


class FirstPass:
    """Samples of one stream to chunks of frames and level, nothing encoded.

    Samples wait until they complete a chunk, so that blocks of any size give the same to the last bit.

    Args:
        model: the model.
        chunk: positions that are emitted at a time.
        look_ahead: positions after each chunk that it may see.

    Attributes:
        samples: how many have come, at the model's rate.
    """

    def __init__(self, model: SpeechModel, chunk: int, look_ahead: int) -> None:
        self.model, self.samples = model, 0
        self._features = model.features.start()
        self._state = model.start(chunk=chunk, look_ahead=look_ahead, encode=False)
        self._waiting = torch.zeros(0, device=model.device)
        self._needed = (chunk + look_ahead) * model.position_samples  # until the next chunk is complete

    def accept(self, samples: Tensor) -> Iterator[tuple[Tensor, list[Chunk]]]:
        """The next samples `(time,)` -> frames `(1, time, mels)` of log10 power, and the chunk that they complete."""
        self.samples += len(samples)
        self._waiting = torch.cat([self._waiting, samples.to(self.model.device)])
        while len(self._waiting) >= self._needed:
            block, self._waiting = self._waiting[: self._needed], self._waiting[self._needed :]
            self._needed = self._state.chunk * self.model.position_samples
            yield self._advance(block)

    def finish(self) -> tuple[Tensor, list[Chunk]]:
        """The end of the stream: what is still inside, as `accept` gives it."""
        tail = self._waiting.new_zeros(round(TAIL * self.model.config.features.sample_rate))
        return self._advance(torch.cat([self._waiting, tail]), final=True)

    def _advance(self, samples: Tensor, final: bool = False) -> tuple[Tensor, list[Chunk]]:
        log_power, self._features = self.model.features(samples[None], self._features)
        chunks, self._state = self.model.advance(log_power, self._state, final=final)
        return log_power, chunks


class ChunkEncoder:
    """Encodes the chunks of one stream while there is something to hear.

    In silence it sleeps: the last chunks are held back, and encoded when it wakes, so that no first word is lost; those
    before them come out as silence. It begins with each sound as with a new stream.

    Args:
        model: the model.
        chunk: positions of a chunk at most.
    """

    def __init__(self, model: SpeechModel, chunk: int) -> None:
        self._model = model
        self._state: EncoderState | None = None
        self._held: deque[Chunk] = deque()
        self._before = math.ceil(BEFORE / model.position_seconds / chunk)  # chunks

    def accept(self, chunk: Chunk, awake: bool) -> Iterator[Chunk]:
        """The next chunk, and whether something is to be heard in it or ahead -> chunks that are done, in order."""
        self._held.append(chunk)
        if not awake:
            self._state = None
            while len(self._held) > self._before:
                yield self._silent(self._held.popleft())
            return
        if self._state is None:
            window = self._held[0].window  # later ones are not longer
            self._state = self._model.encoder.start(len(window), window.shape[1] // SUBSAMPLING)
        while self._held:
            done, self._state = self._model.encode_chunk(self._held.popleft(), self._state)
            yield done

    def finish(self) -> Iterator[Chunk]:
        """What is still held back."""
        while self._held:
            yield self._silent(self._held.popleft())

    def _silent(self, chunk: Chunk) -> Chunk:
        """A chunk in which nobody is heard: no memory, and blanks only."""
        shape = (len(chunk.window), chunk.own, self._model.config.encoder.vocabulary)
        log_probs = chunk.window.new_full(shape, BLANK_ONLY)
        log_probs[..., self._model.tokenizer.blank] = 0
        return replace(chunk, log_probs=log_probs)

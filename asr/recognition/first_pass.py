"""The first pass: samples to the chunks that the encoder emits, of one stream or of many recordings in step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from asr.nn.encoder import SUBSAMPLING
from asr.nn.speech_model import Chunk, SpeechModel
from asr.nn.states import select_rows

TAIL = 0.25  # s of zeros after the end of a stream, so that the words still inside come out


class FirstPass:
    """One stream. Samples wait until they complete a chunk, so that blocks of any size give the same to the last bit.

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
        self._state = model.start(chunk=chunk, look_ahead=look_ahead)
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


def first_passes(
    model: SpeechModel, recordings: Sequence[Tensor], chunk: int, look_ahead: int
) -> list[tuple[Tensor, list[Chunk]]]:
    """Frames and chunks, as `FirstPass` gives them, of whole recordings `(samples,)` that are rows of one encoder.

    Each row begins with its own first sample. Rows leave when they have no whole chunk left: their last ones are
    computed alone.
    """
    tail = torch.zeros(round(TAIL * model.config.features.sample_rate))
    frames = [model.features(torch.cat([samples, tail]).to(model.device)[None])[0] for samples in recordings]
    passes: list[tuple[Tensor, list[Chunk]]] = [(log_power, []) for log_power in frames]
    rows = sorted(range(len(frames)), key=lambda row: -frames[row].shape[1])
    state = model.start(len(rows), chunk=chunk, look_ahead=look_ahead)
    fed, upto = 0, (chunk + look_ahead) * SUBSAMPLING
    while rows:
        staying = sum(frames[row].shape[1] >= upto for row in rows)
        for place, row in enumerate(rows[staying:], start=staying):
            passes[row][1].extend(model.advance(frames[row][:, fed:], select_rows(state, [place]), final=True)[0])
        if staying < len(rows):
            rows, state = rows[:staying], select_rows(state, range(staying))
        if rows:
            (done,), state = model.advance(torch.cat([frames[row][:, fed:upto] for row in rows]), state)
            for place, row in enumerate(rows):
                passes[row][1].append(done.row(place))
        fed, upto = upto, upto + chunk * SUBSAMPLING
    return passes

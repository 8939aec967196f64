"""The first pass of many recordings at once: rows of one encoder that step together, each from its own first sample.

What comes out is what each recording gives when it is streamed alone, chunk by chunk: same windows, same levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asr.nn.encoder import SUBSAMPLING, EncoderOutput, EncoderState, next_window
from asr.nn.features import scale_frames
from asr.nn.level import LevelState, follow_level
from asr.nn.speech_model import ModelState, SpeechModel, StreamOutput
from asr.nn.states import select_rows


@dataclass
class FirstPass:
    """One recording: log10 power frames `(1, time, mels)`; of each chunk what the encoder says, and the level then."""

    log_power: Tensor
    chunks: list[tuple[EncoderOutput, LevelState]] = field(default_factory=list)


@torch.inference_mode()
def first_pass(
    model: SpeechModel, recordings: Sequence[np.ndarray], chunk: int, look_ahead: int, tail: int
) -> list[FirstPass]:
    """The first pass of recordings `(samples,)`, each followed by `tail` zeros; chunk and look-ahead in positions.

    Rows leave as they come to their end, where windows are cut off: those last chunks are computed alone.
    """
    device = model.encoder.ctc.weight.device
    passes = []
    for samples in recordings:
        padded = torch.from_numpy(np.concatenate([samples, np.zeros(tail, np.float32)])).to(device)
        passes.append(FirstPass(model.features(padded[None])[0]))
    live = sorted((p for p in passes if p.log_power.shape[1] >= SUBSAMPLING), key=lambda p: -p.log_power.shape[1])
    if not live:
        return passes
    encoder, level = model.encoder.start(len(live), chunk), LevelState.start(len(live), model.encoder.ctc.weight)
    begin, full = 0, (chunk + look_ahead, chunk)
    while live:
        staying = sum(_window(p, begin, chunk, look_ahead) == full for p in live)
        if staying < len(live):
            for row in range(staying, len(live)):
                _finish(model, live[row], begin, select_rows(encoder, [row]), select_rows(level, [row]), look_ahead)
            live = live[:staying]
            if live:
                encoder, level = select_rows(encoder, range(staying)), select_rows(level, range(staying))
            continue
        encoder, level = _step(model, live, begin, full, encoder, level)
        begin += chunk
    return passes


def _window(recording: FirstPass, begin: int, chunk: int, look_ahead: int) -> tuple[int, int]:
    return next_window(recording.log_power.shape[1] - begin * SUBSAMPLING, chunk, look_ahead, final=True)


def _finish(
    model: SpeechModel, recording: FirstPass, begin: int, encoder: EncoderState, level: LevelState, look_ahead: int
) -> None:
    """The last chunks of one recording."""
    chunk = encoder.cache.capacity - model.config.encoder.left_context
    while (window := _window(recording, begin, chunk, look_ahead))[1]:
        encoder, level = _step(model, [recording], begin, window, encoder, level)
        begin += window[1]


def _step(
    model: SpeechModel,
    rows: Sequence[FirstPass],
    begin: int,
    window: tuple[int, int],
    encoder: EncoderState,
    level: LevelState,
) -> tuple[EncoderState, LevelState]:
    """One chunk of all rows, from position `begin` on."""
    size, own = window
    frames = torch.cat([p.log_power[:, begin * SUBSAMPLING : (begin + size) * SUBSAMPLING] for p in rows])
    gain, level = follow_level(model.features.mean_square(frames), own * SUBSAMPLING, level)
    output, encoder = model.encoder(scale_frames(frames, gain), encoder, own)
    for row, recording in enumerate(rows):
        # The memory is not kept: partials alone would read it.
        mine = EncoderOutput(output.memory[row : row + 1, :0], output.log_probs[row : row + 1], output.lengths[:1])
        recording.chunks.append((mine, select_rows(level, [row])))
    return encoder, level


class Prepared:
    """Stands for a model in a `Stream`: its first pass over the recording is there already and is handed out.

    All else is the model's own.
    """

    def __init__(self, model: SpeechModel, recording: FirstPass) -> None:
        self._model, self._recording = model, recording
        self._samples = self._frames = self._positions = self._chunks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, *, chunk: int, look_ahead: int, **others: Any) -> ModelState:
        like = self._model.encoder.ctc.weight
        empty = EncoderState(None, None, torch.zeros(1, dtype=torch.int64))
        pending = self._recording.log_power[:, :0]
        return ModelState(None, pending, LevelState.start(1, like), empty, None, chunk, look_ahead)

    def __call__(self, samples: Tensor, state: ModelState, *, final: bool = False) -> tuple[StreamOutput, ModelState]:
        """As `SpeechModel.forward`, of which only the number of the samples matters."""
        self._samples += samples.shape[1]
        frames = self._samples // self._model.config.features.hop
        log_power = self._recording.log_power[:, self._frames : frames]
        self._frames, outputs, level = frames, [], state.level
        while True:
            pending = frames - self._positions * SUBSAMPLING
            own = next_window(pending, state.chunk, state.look_ahead, final)[1]
            if not own:
                break
            output, level = self._recording.chunks[self._chunks]
            outputs.append(output.log_probs)
            self._positions, self._chunks = self._positions + own, self._chunks + 1
        sizes = self._model.config.encoder
        log_probs = torch.cat([log_power.new_zeros(1, 0, sizes.vocabulary), *outputs], 1)
        memory = log_power.new_zeros(1, log_probs.shape[1], sizes.d_model)
        lengths = torch.full((1,), log_probs.shape[1])
        return StreamOutput(memory, log_probs, lengths, log_power=log_power), replace(state, level=level)

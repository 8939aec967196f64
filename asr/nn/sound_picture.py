"""Log-mel frames as pictures for a Vision Transformer, seen against their loudest frame: level does not matter."""

from __future__ import annotations

from torch import Tensor

DEPTH = 4.0  # decades of power below the loudest frame that are told apart


def sound_picture(log_power: Tensor) -> Tensor:
    """Frames of log10 power `(batch, frames, mels)` -> pictures `(batch, 1, mels, frames)` of values around 0."""
    loudest = log_power.mean(2, keepdim=True).amax(1, keepdim=True)
    return ((log_power - loudest).clamp(min=-DEPTH) / 2 + 0.5).transpose(1, 2)[:, None]

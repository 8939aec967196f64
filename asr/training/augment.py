"""Augmentation on the training device: level and SpecAugment, drawn from torch's generators (the loop seeds them)."""

from __future__ import annotations

import torch
from torch import Tensor
from torchaudio.functional import mask_along_axis_iid

from asr.training.config import AugmentConfig

MASKED = 0.0  # scaled frames: near the mean of speech at its usual level


def random_gain(batch: int, most_db: float, device: torch.device) -> Tensor:
    """Factors `(batch,)` on the samples, uniform in decibels within +- `most_db`."""
    return 10 ** ((2 * torch.rand(batch, device=device) - 1) * most_db / 20)


def spec_augment(frames: Tensor, lengths: Tensor, config: AugmentConfig) -> Tensor:
    """SpecAugment (Park et al. 2019, without time warping): each utterance has bands and stretches of its own.

    Args:
        frames: scaled, `(batch, time, mels)`.
        lengths: `(batch,)` frames of each row; stretches lie inside of them.
        config: numbers and sizes of the masks; a stretch is at most `time_share` of its utterance
            (adaptive size, Park et al. 2020).
    """
    for _ in range(config.frequency_masks):
        width = min(config.frequency_width, frames.shape[2])
        frames = mask_along_axis_iid(frames.transpose(1, 2), width, MASKED, 1).transpose(1, 2)
    if not config.time_masks or not config.time_width:
        return frames
    longest = (lengths * config.time_share).clamp(max=config.time_width)[:, None]
    size = torch.rand(len(lengths), config.time_masks, device=frames.device) * longest
    start = torch.rand_like(size) * (lengths[:, None] - size)
    time = torch.arange(frames.shape[1], device=frames.device)
    masked = (time >= start[..., None].floor()) & (time < (start.floor() + size.floor())[..., None])
    return frames.masked_fill(masked.any(1)[..., None], MASKED)

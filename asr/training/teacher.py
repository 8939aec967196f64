"""The frozen teacher: Moonshine's encoder, read by the layers of a student of the same shape.

It reads raw samples, normalises them over the whole utterance and attends to all of it, so it cannot stream; what it
makes of clean, whole utterances is what a streaming student learns to make of noisy ones, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.errors import ModelError
from asr.nn.masks import padding_mask
from asr.nn.positions import Rotary
from asr.nn.sizes import bounded, check_rotary, read_json, read_sizes
from asr.nn.transformer import Block
from asr.nn.weights import assign_weights, load_weights

CONFIG, WEIGHTS = "teacher.json", "teacher.safetensors"
WINDOW = 895  # samples that a position reads
HOP = 384  # samples between positions; the student's are as far apart
DELAY = 1  # the student's position m is taught by the teacher's m - 1, which reads little beyond it


@dataclass(frozen=True)
class TeacherConfig:
    """Sizes of the teacher, as in `EncoderConfig`."""

    d_model: int = bounded(416, 1, 65536)
    heads: int = bounded(8, 1, 1024)
    inner: int = bounded(1664, 1, 262144)
    layers: int = bounded(8, 1, 1024)
    rotary_dim: int = bounded(32, 0)
    rotary_base: float = bounded(10000.0, 1, above=True)

    def __post_init__(self) -> None:
        check_rotary(self.rotary_dim, self.d_model, self.heads)


class Teacher(nn.Module):
    """Raw samples -> residual stream after the stem and after each block; one position each 384 samples (24 ms).

    The architecture of Moonshine's encoder (Jeffries et al. 2024, section 3.1), on this project's blocks.
    """

    def __init__(self, config: TeacherConfig) -> None:
        super().__init__()
        self.config = c = config
        self.conv1 = nn.Conv1d(1, c.d_model, 127, stride=64, bias=False)
        self.norm_stem = nn.GroupNorm(1, c.d_model)
        self.conv2 = nn.Conv1d(c.d_model, 2 * c.d_model, 7, stride=3)
        self.conv3 = nn.Conv1d(2 * c.d_model, c.d_model, 3, stride=2)
        rotary = Rotary(c.rotary_dim, c.rotary_base)
        self.blocks = nn.ModuleList(Block(c.d_model, c.heads, c.inner, rotary=rotary) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.d_model, bias=False)

    @classmethod
    def load(cls, folder: str | Path) -> Teacher:
        """Reads what `scripts/recipes/import_moonshine.py` wrote, frozen; ModelError when it does not fit."""
        path, weights = Path(folder, CONFIG), Path(folder, WEIGHTS)
        try:
            config = read_sizes(TeacherConfig, read_json(path), path)
        except OSError as error:
            raise ModelError(
                f"{folder}: holds no teacher ({CONFIG} is missing; configs/README.md says how to make one)"
            ) from error
        tensors = load_weights(weights, blocks=config.layers)
        with torch.device("meta"):
            teacher = cls(config)
        return assign_weights(teacher, tensors, weights).eval().requires_grad_(False)

    def forward(
        self, samples: Tensor, lengths: Tensor | None = None, taps: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Samples `(batch, time)` at 16 kHz, of `lengths` `(batch,)`, each at least `WINDOW`.

        Returns:
            The memory `(batch, positions, d_model)`, the positions of each row `(batch,)`, and the residual stream
            after each block of `taps` (0 = the stem).
        """
        if lengths is None:
            lengths = torch.full((samples.shape[0],), samples.shape[1], device=samples.device)
        x = self._stem(samples, lengths)
        lengths = (lengths - WINDOW) // HOP + 1
        mask = padding_mask(lengths, x.shape[1])[:, None, None]
        positions = torch.arange(x.shape[1], device=x.device)[None]
        tapped = [x] if 0 in taps else []
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, positions=positions, mask=mask)
            if number in taps:
                tapped.append(x)
        return self.norm(x), lengths, tuple(tapped)

    def _stem(self, samples: Tensor, lengths: Tensor) -> Tensor:
        x = self.conv1(samples[:, None]).tanh()
        inside = padding_mask((lengths - 127) // 64 + 1, x.shape[2])[:, None]
        x = x * inside
        count = inside.sum((1, 2), keepdim=True) * x.shape[1]
        mean = x.sum((1, 2), keepdim=True) / count
        variance = (((x - mean) * inside) ** 2).sum((1, 2), keepdim=True) / count
        n = self.norm_stem
        x = (x - mean) * (variance + n.eps).rsqrt() * n.weight[:, None] + n.bias[:, None]
        return F.gelu(self.conv3(F.gelu(self.conv2(x)))).transpose(1, 2)

    def norm_after(self, tap: int) -> nn.LayerNorm:
        """The LayerNorm that reads the residual stream after block `tap`."""
        return self.norm if tap == len(self.blocks) else self.blocks[tap].norm_att

"""Encodings of position: relative bias, rotary, sinusoidal and learned (in one and two dimensions)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def relative_bucket(relative: Tensor, buckets: int = 64, exact: int = 16, furthest: int = 400) -> Tensor:
    """The bucket of each relative position `query - key`, after T5 (Raffel et al. 2020, section 2.1).

    Half of the buckets are for the past (r >= 0), half for the future. In each half, distances below `exact` have a
    bucket of their own, larger ones share buckets that widen logarithmically up to `furthest`, the last takes the rest.
    """
    half = buckets // 2
    distance = relative.abs()
    ratio = torch.log(distance.clamp(min=exact).double() / exact) / math.log(furthest / exact)
    far = exact + (ratio * (half - exact)).long()
    return torch.where(distance < exact, distance, far.clamp(max=half - 1)) + half * (relative < 0)


@dataclass(frozen=True)
class Diagonals:
    """Relative positions of queries and keys that both follow one another, where each diagonal has one bucket.

    Attributes:
        bucket: `(queries + keys,)`: that of the last query and the first key, then one diagonal after the other.
        queries: how many.
    """

    bucket: Tensor
    queries: int

    @classmethod
    def of(cls, offset: int, queries: int, keys: int, buckets: int, device: torch.device) -> Diagonals:
        """`offset` is the first query's position less that of the first key."""
        relative = offset + queries - 1 - torch.arange(queries + keys, device=device)
        return cls(relative_bucket(relative, buckets), queries)


class RelativeBias(nn.Module):
    """A learned bias per head and bucket of relative position, added to the scaled scores.

    A function of (query position - key position) and of nothing else.
    """

    def __init__(self, heads: int, buckets: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, bucket: Tensor | Diagonals) -> Tensor:
        """Bias `(batch, heads, queries, keys)` for bucket indices `(batch, queries, keys)`, or for diagonals.

        The result is the same. Of a gather, the backward adds up millions of scattered elements; diagonals are copied,
        and moved by one from row to row.
        """
        if isinstance(bucket, Tensor):
            return self.weight[:, bucket].transpose(0, 1)
        diagonals, queries = self.weight.index_select(1, bucket.bucket), bucket.queries
        heads, width = diagonals.shape
        rows = diagonals[:, None].expand(-1, queries, -1).reshape(heads, -1)
        moved = rows[:, queries - 1 : -1].view(heads, queries, width - 1)
        return moved[None, ..., : width - queries]


class Rotary:
    """Rotary encoding (Su et al. 2021) of the first `dim` values of a head, in interleaved pairs (0, 1), (2, 3), ...

    Pair i turns by `position * base ** (-2 i / dim)`. Angles are computed in float64, so that positions of hours of
    stream stay exact.
    """

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        self.dim, self.base = dim, base
        self._last: tuple[Tensor, torch.dtype, Tensor, Tensor] | None = None  # all layers turn by the same positions

    def turn(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `(..., dim / 2)` in float64 of integer positions `(...)`."""
        exponent = torch.arange(0, self.dim, 2, dtype=torch.float64, device=positions.device) / self.dim
        angle = positions.double()[..., None] * self.base**-exponent
        return angle.cos(), angle.sin()

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turns `x` `(batch, heads, time, d_k)` by absolute `positions` `(batch or 1, time)`."""
        last = self._last
        if last is None or last[0] is not positions or last[1] != x.dtype:
            cos, sin = (part.to(x.dtype).unsqueeze(1) for part in self.turn(positions))
            self._last = last = positions, x.dtype, cos, sin
        _, _, cos, sin = last
        even, odd, rest = x[..., 0 : self.dim : 2], x[..., 1 : self.dim : 2], x[..., self.dim :]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
        return torch.cat([turned, rest], -1)


def sinusoidal(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """Encoding `(..., dim)` of positions `(...)`: sines in even, cosines in odd places (Vaswani et al. 2017)."""
    if dim % 2:
        raise ValueError(f"a sinusoidal encoding needs an even width, not {dim}")
    cos, sin = Rotary(dim, base).turn(positions)
    return torch.stack([sin, cos], -1).flatten(-2).float()


class LearnedPositions(nn.Module):
    """A learned vector for each position of a line or of a grid, interpolated to other sizes.

    Args:
        size: `(length,)` or `(height, width)` of the trained grid.
        dim: width of the vectors.
        antialias: smooth a grid before it is shrunk, and interpolate with the kernel that timm takes.
    """

    def __init__(self, size: tuple[int, ...], dim: int, *, antialias: bool = False) -> None:
        super().__init__()
        self.antialias = antialias
        if len(size) not in (1, 2):
            raise ValueError(f"positions are learned on a line or a grid, not in {len(size)} dimensions")
        self.weight = nn.Parameter(torch.empty(*size, dim))
        nn.init.trunc_normal_(self.weight, std=0.02)

    def forward(self, *size: int) -> Tensor:
        """Vectors `(*size, dim)`: the trained ones, or interpolated (linear on a line, bicubic on a grid)."""
        trained = tuple(self.weight.shape[:-1])
        size = size or trained
        if len(size) != len(trained):
            raise ValueError(f"{len(size)}-dimensional positions asked of {len(trained)}-dimensional ones")
        if size == trained:
            return self.weight
        mode = "linear" if len(trained) == 1 else "bicubic"
        grid = self.weight.movedim(-1, 0)[None].contiguous()
        antialias = self.antialias and len(trained) == 2
        return F.interpolate(grid, size=size, mode=mode, align_corners=False, antialias=antialias)[0].movedim(0, -1)

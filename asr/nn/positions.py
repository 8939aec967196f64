"""Encodings of position: relative bias, rotary, and learned on a grid."""

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
        bucket: `(queries + keys - 1,)`: that of the last query and the first key, then one diagonal after the other.
        keys: how many.
    """

    bucket: Tensor
    keys: int

    @classmethod
    def of(cls, offset: int, queries: int, keys: int, buckets: int, device: torch.device) -> Diagonals:
        """`offset` is the first query's position less that of the first key."""
        relative = offset + queries - 1 - torch.arange(queries + keys - 1, device=device)
        return cls(relative_bucket(relative, buckets), keys)


class RelativeBias(nn.Module):
    """A learned bias per head and bucket of relative position, added to the scaled scores.

    A function of (query position - key position) and of nothing else.
    """

    def __init__(self, heads: int, buckets: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, bucket: Tensor | Diagonals) -> Tensor:
        """Bias `(batch, heads, queries, keys)` for bucket indices `(batch, queries, keys)`, or for diagonals.

        That for diagonals has the queries from the last to the first: then each row is the one before it, moved by one,
        and the bias is a view of the diagonals instead of millions of copied numbers.
        """
        if isinstance(bucket, Tensor):
            return self.weight[:, bucket].transpose(0, 1)
        return self.weight.index_select(1, bucket.bucket).unfold(1, bucket.keys, 1)[None]


class Rotary:
    """Rotary encoding (Su et al. 2021) of the first `dim` values of a head, in interleaved pairs (0, 1), (2, 3), ...

    Pair i turns by `position * base ** (-2 i / dim)`. Angles are computed in float64, so that positions of hours of
    stream stay exact.
    """

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        self.dim, self.base = dim, base
        self._last: tuple[Tensor, int, torch.dtype, Tensor, Tensor] | None = None  # all layers turn by the same

    def turn(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `(..., dim / 2)` in float64 of integer positions `(...)`."""
        exponent = torch.arange(0, self.dim, 2, dtype=torch.float64, device=positions.device) / self.dim
        angle = positions.double()[..., None] * self.base**-exponent
        return angle.cos(), angle.sin()

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turns `x` `(..., batch, heads, time, d_k)` by absolute `positions` `(batch or 1, time)`."""
        last, version = self._last, 0 if positions.is_inference() else positions._version
        if last is None or last[0] is not positions or last[1:3] != (version, x.dtype):
            cos, sin = (part.to(x.dtype).unsqueeze(1) for part in self.turn(positions))
            self._last = last = positions, version, x.dtype, cos, sin
        *_, cos, sin = last
        even, odd, rest = x[..., 0 : self.dim : 2], x[..., 1 : self.dim : 2], x[..., self.dim :]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
        return torch.cat([turned, rest], -1)


class LearnedPositions(nn.Module):
    """A learned vector for each place of a grid, interpolated to other sizes as timm does.

    Args:
        size: `(rows, columns)` of the trained grid.
        dim: width of the vectors.
    """

    def __init__(self, size: tuple[int, int], dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*size, dim))
        nn.init.trunc_normal_(self.weight, std=0.02)

    def forward(self, rows: int, columns: int) -> Tensor:
        """Vectors `(rows, columns, dim)`: the trained ones, or interpolated (bicubic, smoothed first, in float32)."""
        if (rows, columns) == self.weight.shape[:2]:
            return self.weight
        grid = self.weight.float().movedim(-1, 0)[None].contiguous()
        grid = F.interpolate(grid, size=(rows, columns), mode="bicubic", align_corners=False, antialias=True)
        return grid[0].movedim(0, -1).to(self.weight.dtype)

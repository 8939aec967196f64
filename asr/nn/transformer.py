"""Feed-forward network and pre-norm block: the one block of encoder, decoder and ViT."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from asr.nn.attention import ChunkWindows, KeyValueCache, MultiHeadAttention, Rotate
from asr.nn.positions import Diagonals, RelativeBias


class FeedForward(nn.Module):
    """Position-wise feed-forward network with GELU, or gated by SiLU (SwiGLU, Shazeer 2020)."""

    def __init__(self, d_model: int, inner: int, *, gated: bool = False) -> None:
        super().__init__()
        self.gated = gated
        self.up = nn.Linear(d_model, 2 * inner if gated else inner)
        self.down = nn.Linear(inner, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """`(..., d_model)` -> `(..., d_model)`."""
        if self.gated:
            value, gate = self.up(x).chunk(2, -1)
            return self.down(value * F.silu(gate))
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Pre-norm transformer block: self-attention, cross-attention where there is a memory, feed-forward.

    Args:
        d_model: width.
        heads: attention heads.
        inner: inner width of the feed-forward network.
        rotary: rotary encoding of the self-attention.
        buckets: buckets of a learned relative bias in the self-attention; 0 = none.
        cross: has cross-attention.
        gated: the feed-forward network is gated.
        bias: LayerNorms and attention projections have biases (as in a ViT).
        dropout: of each residual branch, in training.
        epsilon: added to the variance in LayerNorms.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        inner: int,
        *,
        rotary: Rotate | None = None,
        buckets: int = 0,
        cross: bool = False,
        gated: bool = False,
        bias: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm_att = nn.LayerNorm(d_model, epsilon, bias=bias)
        self.att = MultiHeadAttention(d_model, heads, bias=bias, rotary=rotary)
        self.relative = RelativeBias(heads, buckets) if buckets else None
        if cross:
            self.norm_cross = nn.LayerNorm(d_model, epsilon, bias=bias)
            self.cross = MultiHeadAttention(d_model, heads, cross=True, bias=bias)
        self.norm_ff = nn.LayerNorm(d_model, epsilon, bias=bias)
        self.ff = FeedForward(d_model, inner, gated=gated)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        positions: Tensor | None = None,
        bucket: Tensor | Diagonals | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | ChunkWindows | None = None,
        layer: int = 0,
        queries: int | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_mask: Tensor | None = None,
        memory_lengths: Sequence[int] | None = None,
    ) -> Tensor:
        """`(batch, time, d_model)` -> the same, or `(batch, queries, d_model)`; arguments as in
        `MultiHeadAttention.forward`.

        `bucket` holds the relative-bias buckets (`RelativeBias.forward`); `memory`, `memory_mask` and `memory_lengths`
        go to the cross-attention; of a memory that has fewer rows than `x`, equally many rows that follow each other
        read one.
        """
        attended = self.att(
            self.norm_att(x),
            positions=positions,
            mask=mask,
            bias=None if self.relative is None else self.relative(bucket),
            backwards=isinstance(bucket, Diagonals),
            cache=cache,
            layer=layer,
            queries=queries,
        )
        x = x[:, :queries] + self.dropout(attended)
        if memory is not None:
            # Rows that share a memory follow each other: they read it as one longer row.
            read = self.norm_cross(x).reshape(len(memory[0]), -1, x.shape[-1])
            x = x + self.dropout(self.cross(read, memory=memory, mask=memory_mask, lengths=memory_lengths).view_as(x))
        return x + self.dropout(self.ff(self.norm_ff(x)))

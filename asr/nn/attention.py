"""The shared attention core: scaled dot-product attention, multi-head attention and its key-value cache.

Encoder, decoder and ViT are built on this file and on no other attention. Formulas: Vaswani et al. 2017, "Attention
is all you need", section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Rotate = Callable[[Tensor, Tensor], Tensor]
"""Turns `(..., batch, heads, time, d_k)` by positions `(batch or 1, time)`: a rotary encoding."""


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Scaled dot-product attention: softmax(scale * Q K^T + bias) V over the keys that `mask` allows.

    Args:
        q: queries `(..., queries, d_k)`.
        k: keys `(..., keys, d_k)`.
        v: values `(..., keys, d_v)`.
        scale: the softargmax's beta; default `1 / sqrt(d_k)`, which keeps unit-variance scores.
        mask: boolean, True = may attend, broadcastable to `(..., queries, keys)`.
        bias: added to the scaled scores, broadcastable to `(..., queries, keys)`.
        return_weights: take the explicit path and return `(output, weights)` too.

    Returns:
        `(..., queries, d_v)`, and with `return_weights` the weights `(..., queries, keys)`. A query that may attend
        nowhere yields zeros.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    learns = bias is not None and torch.is_grad_enabled() and bias.requires_grad  # the fused path has no such gradient
    if return_weights or learns:
        scores = (scale * q) @ k.transpose(-2, -1)
        if bias is not None:
            scores = scores + bias
        if mask is not None:  # not -inf, which makes a row of NaN where there is nothing else
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        nowhere = None if mask is None else ~mask.any(-1, keepdim=True)
        out = weights.to(v.dtype) @ v  # a bias may be more precise than what it is added to
        out = out if nowhere is None else out.masked_fill(nowhere, 0)
        if not return_weights:
            return out
        return out, weights if nowhere is None else weights.masked_fill(nowhere, 0)
    if bias is None:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    else:
        additive = bias if mask is None else torch.where(mask, bias, -math.inf)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=additive.to(q.dtype), scale=scale)
    return out if mask is None else out.masked_fill(~mask.any(-1, keepdim=True), 0)


@dataclass
class KeyValueCache:
    """Projected keys and values of the positions that later queries may still see: a window over a longer buffer.

    One cache serves all layers of a stack. Columns are taken one after the other, in the order of positions, so that
    what a query sees is one view of the buffer and its distances are those of the columns; when the buffer ends, what
    is still seen moves to its beginning. Rows may be at different positions. Appending changes the cache in place.

    Attributes:
        keys: `(batch, layers, heads, room, d_k)`.
        values: `(batch, layers, heads, room, d_k)`.
        positions: `(batch, room)`, the absolute position in each column, -1 where empty.
        left_context: stored positions that the next ones see; None = all.
        begin: column of the first position that those claimed last see.
        stored: column after the last position that stays.
        end: column after the last position that was claimed.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor = field(metadata={"empty": -1})
    left_context: int | None = None
    begin: int = 0
    stored: int = 0
    end: int = 0

    @classmethod
    def empty(
        cls,
        batch: int,
        layers: int,
        heads: int,
        room: int,
        head_dim: int,
        like: Tensor,
        left_context: int | None = None,
    ) -> KeyValueCache:
        """A cache that holds nothing, with the dtype and device of `like`.

        A `room` of twice the left context and what is claimed at a time seldom has to be moved.
        """
        shape = (batch, layers, heads, room, head_dim)
        positions = torch.full((batch, room), -1, dtype=torch.int64, device=like.device)
        return cls(like.new_zeros(shape), like.new_zeros(shape), positions, left_context)

    @property
    def room(self) -> int:
        """How many columns there are."""
        return self.positions.shape[1]

    def claim(self, positions: Tensor, own: int | None = None) -> Tensor:
        """Makes place for absolute positions `(batch, time)` that follow those stored.

        Of them the first `own` stay (default: all); the others look ahead and are forgotten with the next claim.

        Returns:
            What they see, themselves included: positions `(batch, keys)`, -1 where empty.

        Raises:
            ValueError: there is not so much room.
        """
        time, room = positions.shape[1], self.room
        past = self.stored - self.begin
        past = past if self.left_context is None else min(past, self.left_context)
        if past + time > room:
            raise ValueError(f"{time} positions do not fit in a cache of {room} that holds {past}")
        self.begin = self.stored - past
        if self.stored + time > room:
            seen = slice(self.begin, self.stored)
            self.keys[:, :, :, :past] = self.keys[:, :, :, seen].clone()
            self.values[:, :, :, :past] = self.values[:, :, :, seen].clone()
            self.positions[:, :past] = self.positions[:, seen].clone()
            self.begin, self.stored = 0, past
        self.end = self.stored + time
        self.positions[:, self.stored : self.end] = positions
        self.stored += time if own is None else own
        return self.positions[:, self.begin : self.end]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Puts one layer's keys and values `(batch, heads, time, d_k)` where their positions were claimed.

        Returns that layer's keys and values `(batch, heads, keys, d_k)` at the positions that `claim` returned.
        """
        new, seen = slice(self.end - k.shape[2], self.end), slice(self.begin, self.end)
        self.keys[:, layer, :, new] = k
        self.values[:, layer, :, new] = v
        return self.keys[:, layer, :, seen], self.values[:, layer, :, seen]

    def select(self, rows: Sequence[int]) -> KeyValueCache:
        """A copy with these rows, in this order, of which each may come several times."""
        at, used = torch.tensor(rows, device=self.positions.device), slice(0, self.end)
        keys, values = (x.new_empty(len(rows), *x.shape[1:]) for x in (self.keys, self.values))
        positions = torch.full_like(self.positions[:1], -1).repeat(len(rows), 1)
        for new, old in ((keys, self.keys), (values, self.values)):
            new[:, :, :, used] = old[:, :, :, used].index_select(0, at)
        positions[:, used] = self.positions[at, used]
        return replace(self, keys=keys, values=values, positions=positions)

    def truncate(self, length: int) -> None:
        """Forgets all but the first `length` positions that were stored, in a cache that sees all."""
        self.positions[:, length:] = -1
        self.stored = min(self.stored, length)


@dataclass
class ChunkWindows:
    """What a `KeyValueCache` gives chunk after chunk, for all chunks of whole sequences at once: for training.

    Each chunk is a row of its own, `(batch * chunks)` in all; a sequence's chunks follow each other. A row sees the
    `left_context` positions before its chunk and the chunk itself.

    Attributes:
        chunks: chunks of each sequence.
        chunk: positions of a chunk; what follows them in a row looks ahead.
        left_context: positions before a chunk.
    """

    chunks: int
    chunk: int
    left_context: int

    def positions(self, device: torch.device) -> Tensor:
        """Absolute positions `(chunks, left_context + chunk)` that the chunks see; negative before the beginning."""
        start = torch.arange(self.chunks, device=device)[:, None] * self.chunk
        return start + torch.arange(-self.left_context, self.chunk, device=device)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """What each chunk sees of keys and values `(batch * chunks, heads, time, d_k)`.

        Returns keys and values `(batch * chunks, heads, left_context + time, d_k)`: at `positions`, then those that
        look ahead.
        """
        return self._widen(k), self._widen(v)

    def _widen(self, x: Tensor) -> Tensor:
        heads, dim, chunk = x.shape[1], x.shape[3], self.chunk
        own = x[:, :, :chunk].unflatten(0, (-1, self.chunks)).transpose(1, 2)
        whole = F.pad(own.reshape(-1, heads, self.chunks * chunk, dim), (0, 0, self.left_context, 0))
        windows = whole.unfold(2, self.left_context + chunk, chunk).permute(0, 2, 1, 4, 3)
        ahead = x[:, :, chunk:].unflatten(0, (-1, self.chunks))
        return torch.cat([windows, ahead], 3).flatten(0, 1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention: self-attention (with or without a cache and masks) or cross-attention.

    Self-attention projects queries, keys and values with one matrix `qkv` (rows: all queries, all keys, all values;
    inside each, heads in order); cross-attention has `q` and `kv`.

    Args:
        d_model: width of inputs and outputs.
        heads: number of heads.
        cross: keys and values come from a memory.
        bias: the projections have biases.
        rotary: turns queries and keys by their absolute positions.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        cross: bool = False,
        bias: bool = False,
        rotary: Rotate | None = None,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not a multiple of {heads} heads")
        self.heads, self.head_dim, self.cross = heads, d_model // heads, cross
        if cross:
            self.q = nn.Linear(d_model, d_model, bias=bias)
            self.kv = nn.Linear(d_model, 2 * d_model, bias=bias)
        else:
            self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.proj = nn.Linear(d_model, d_model, bias=bias)
        self.rotary = rotary

    def _split(self, x: Tensor, parts: int) -> Tensor:
        """`(batch, time, parts * heads * d_k)` -> `(parts, batch, heads, time, d_k)`."""
        batch, time, _ = x.shape
        return x.view(batch, time, parts, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values `(batch, heads, keys, d_k)` of a memory `(batch, keys, d_model)`, for cross-attention."""
        k, v = self._split(self.kv(memory), 2)
        return k, v

    def forward(
        self,
        x: Tensor,
        *,
        memory: tuple[Tensor, Tensor] | None = None,
        lengths: Sequence[int] | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        backwards: bool = False,
        cache: KeyValueCache | ChunkWindows | None = None,
        layer: int = 0,
        queries: int | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attends from `x`.

        Args:
            x: `(batch, time, d_model)`.
            memory: projected keys and values (`project_memory`), for cross-attention.
            lengths: keys of each row of a padded memory, which are read row by row, and no padding: on a processor,
                where memory is what time goes into. A mask does the same at once.
            positions: absolute positions `(batch or 1, time)`, needed with a rotary encoding.
            mask: boolean, broadcastable to `(batch, heads, time, keys)`; True = may attend.
            bias: broadcastable to `(batch, heads, time, keys)`.
            backwards: the bias has the queries from the last to the first; a mask must be the same for all of them.
            cache: keys and values of earlier positions, which has claimed `positions`.
            layer: which layer of the cache.
            queries: how many of the first positions attend; default: all. The others are only attended to.

        Returns:
            `(batch, time or queries, d_model)`, and with `return_weights` the weights `(batch, heads, time, keys)`.
        """
        if self.cross:
            (q,) = self._split(self.q(x), 1)
            k, v = memory
        else:
            parts = self._split(self.qkv(x), 3)
            q, k = parts[:2] if self.rotary is None else self.rotary(parts[:2], positions)
            v = parts[2]
            if cache is not None:
                k, v = cache.append(layer, k, v)
        if queries is not None:
            q = q[:, :, :queries]
            mask = None if mask is None else mask[..., :queries, :]
            bias = bias if bias is None else bias[..., -queries:, :] if backwards else bias[..., :queries, :]
        if backwards:
            q = q.flip(2)
        if lengths is None:
            out = attention(q, k, v, mask=mask, bias=bias, return_weights=return_weights)
        else:
            rows = zip(q.split(1), k.split(1), v.split(1), lengths, strict=True)
            out = torch.cat([attention(one, keys[:, :, :n], values[:, :, :n]) for one, keys, values, n in rows])
        out, weights = out if return_weights else (out, None)
        if backwards:
            out, weights = out.flip(2), weights if weights is None else weights.flip(2)
        out = self.proj(out.transpose(1, 2).flatten(2))
        return (out, weights) if return_weights else out

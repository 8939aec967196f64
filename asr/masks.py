"""Which query may attend to which key: boolean masks, True = may attend."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FULL_CONTEXT = 1 << 40  # positions: a chunk longer than any utterance


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """`(batch, size)`: True on the first `lengths[b]` positions of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(queries: Tensor, keys: Tensor) -> Tensor:
    """`(..., queries, keys)`: no key later than its query, from positions `(..., queries)` and `(..., keys)`."""
    return keys[..., None, :] <= queries[..., :, None]


def chunk_mask(queries: Tensor, keys: Tensor, chunk: int, left_context: int | None = None) -> Tensor:
    """`(..., queries, keys)`: a query sees its own chunk and up to `left_context` positions before that chunk.

    `chunk` 1 is the strictly causal mask, `FULL_CONTEXT` the mask that allows everything; `left_context` None is
    unlimited.
    """
    start = queries // chunk * chunk
    mask = (keys // chunk)[..., None, :] <= (queries // chunk)[..., :, None]
    return mask if left_context is None else mask & (start[..., :, None] - keys[..., None, :] <= left_context)


def combine(*masks: Tensor | None) -> Tensor | None:
    """All given masks at once (broadcast against each other); None = no restriction."""
    present = [mask for mask in masks if mask is not None]
    if not present:
        return None
    result = present[0]
    for mask in present[1:]:
        result = result & mask
    return result


@dataclass(frozen=True)
class ChunkLayout:
    """A whole sequence laid out so that one masked pass equals chunk-by-chunk streaming with look-ahead.

    Each chunk is followed by copies of the (up to) `look_ahead` positions after it, its followers. They belong to the
    chunk's group: they see what the chunk sees and are seen by it alone, as in the streaming encoder, which computes
    them together with the chunk and throws them away.

    Attributes:
        index: `(time,)` the position of each place of the layout.
        own: `(time,)` True on the chunk's own positions, False on followers.
        group: `(time,)` the number of the chunk.
        mask: `(time, time)` who sees whom.
    """

    index: Tensor
    own: Tensor
    group: Tensor
    mask: Tensor

    @classmethod
    def build(
        cls,
        size: int,
        chunk: int,
        look_ahead: int = 0,
        left_context: int | None = None,
        device: torch.device | None = None,
    ) -> ChunkLayout:
        """The layout of `size` positions in chunks of `chunk` with `look_ahead` followers."""
        position = torch.arange(size, device=device)
        chunk = min(chunk, max(size, 1))
        chunks = -(-size // chunk)
        width = min(chunk + look_ahead, size)
        grid = torch.arange(chunks, device=device)[:, None] * chunk + torch.arange(width, device=device)
        inside = grid < size
        index = grid[inside]
        own = (torch.arange(width, device=device) < chunk).expand(chunks, -1)[inside]
        group = torch.arange(chunks, device=device)[:, None].expand(-1, width)[inside]
        start = group * chunk
        mask = (group[:, None] == group[None]) | (own[None] & (index[None] < start[:, None]))
        if left_context is not None:
            mask &= start[:, None] - index[None] <= left_context
        assert bool(own.sum() == position.numel())
        return cls(index, own, group, mask)

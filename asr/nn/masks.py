"""Which query may attend to which key: boolean masks, True = may attend."""

from __future__ import annotations

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

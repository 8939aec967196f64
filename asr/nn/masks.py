"""Which query may attend to which key: boolean masks, True = may attend."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """`(batch, size)`: True on the first `lengths[b]` positions of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def causal_mask(queries: Tensor, keys: Tensor) -> Tensor:
    """`(..., queries, keys)`: no key later than its query, from positions `(..., queries)` and `(..., keys)`."""
    return keys[..., None, :] <= queries[..., :, None]

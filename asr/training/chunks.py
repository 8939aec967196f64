"""The chunk and look-ahead that a batch is trained with, so that one model serves every latency."""

from __future__ import annotations

import random

from asr.nn.masks import FULL_CONTEXT
from asr.training.config import ChunkConfig


def possible_chunks(config: ChunkConfig) -> list[tuple[int, int]]:
    """All `(chunk, look-ahead)` in positions that can be drawn, full context aside."""
    return [
        (size, ahead)
        for size in config.sizes
        for ahead in config.look_ahead or (0,)
        if ahead == 0 or (size + ahead) / size <= config.max_cost
    ]


def draw_chunk(config: ChunkConfig, draw: random.Random) -> tuple[int, int]:
    """`(chunk, look-ahead)` of a batch: full context, or a chunk and then one of its affordable look-aheads."""
    if not config.sizes or draw.random() < config.full_context:
        return FULL_CONTEXT, 0
    if config.favoured and draw.random() < config.favour:
        size, ahead = config.favoured
        return size, ahead
    possible = possible_chunks(config)
    size = draw.choice([size for size in config.sizes if any(chunk == size for chunk, _ in possible)] or [0])
    return draw.choice([pair for pair in possible if pair[0] == size]) if size else (FULL_CONTEXT, 0)


def draw_left_context(config: ChunkConfig, draw: random.Random) -> int | None:
    """Positions before the chunks of a batch that these may see; None = the model's own left context."""
    return draw.choice(config.left_context) if config.left_context else None

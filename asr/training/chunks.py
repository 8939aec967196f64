"""The chunks that batches are trained with, so that one model serves every latency."""

from __future__ import annotations

import random
from dataclasses import replace

from asr.nn.encoder import FULL_CONTEXT, Chunking
from asr.training.config import ChunkConfig


def possible_chunks(config: ChunkConfig) -> list[Chunking]:
    """All chunks and look-aheads that can be drawn, full context aside."""
    return [
        Chunking(size, ahead)
        for size in config.sizes
        for ahead in config.look_ahead or (0,)
        if ahead == 0 or (size + ahead) / size <= config.max_cost
    ]


def draw_chunking(config: ChunkConfig, draw: random.Random) -> Chunking:
    """What a batch sees: full context, or a chunk and one of its affordable look-aheads; then the left context."""
    chunking = _draw_chunk(config, draw)
    return replace(chunking, left_context=draw.choice(config.left_context)) if config.left_context else chunking


def _draw_chunk(config: ChunkConfig, draw: random.Random) -> Chunking:
    if not config.sizes or draw.random() < config.full_context:
        return FULL_CONTEXT
    if config.favoured and draw.random() < config.favour:
        return Chunking(*config.favoured)
    possible = possible_chunks(config)
    sizes = [size for size in config.sizes if any(p.chunk == size for p in possible)]
    if not sizes:
        return FULL_CONTEXT
    size = draw.choice(sizes)
    return draw.choice([p for p in possible if p.chunk == size])

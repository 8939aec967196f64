"""Level control of a stream: a gain that follows the level of recent speech and that silence does not drive up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from asr.features import level_gain
from asr.streaming import reset_rows

HISTORY = 1000  # frames: the last 8 s at 8 ms
CONTRAST = 10.0  # loud over quiet frames (power ratio) from which on a stretch counts as speech: 10 dB
DEPTH = 1e-3  # frames this far below the loud ones (30 dB) are pauses and do not count
LOUD, QUIET = 0.95, 0.10  # quantiles of the history that stand for speech and for what lies under it
ABOVE_QUIET = 4.0  # a sound is louder than the background by this power ratio (6 dB) ...
BELOW_LEVEL = 10**-2.5  # ... and not further than this below recent speech (25 dB)


@dataclass
class LevelState:
    """What is known of the levels of a stream.

    Attributes:
        history: `(batch, HISTORY)` mean squares of the last frames, -1 where there were none yet.
        level: `(batch,)` mean square of recent speech, 0 before the first.
        quiet: `(batch,)` mean square of what lies under the speech.
    """

    history: Tensor = field(metadata={"empty": -1})
    level: Tensor
    quiet: Tensor

    @classmethod
    def start(cls, batch: int, like: Tensor) -> LevelState:
        return cls(like.new_full((batch, HISTORY), -1.0), like.new_zeros(batch), like.new_zeros(batch))

    def reset(self, rows: Sequence[int]) -> None:
        reset_rows(self, rows)


def follow_level(mean_square: Tensor, own: int, state: LevelState) -> tuple[Tensor, LevelState]:
    """The gain `(batch,)` for a chunk.

    The level is the mean over those frames of the last 8 seconds that are not pauses. It is taken over only while these
    seconds have the contrast of speech; through silence and steady noise the last one is held. Before any speech the
    gain is 1.

    Args:
        mean_square: `(batch, frames)` of the chunk and of what is known after it.
        own: how many of these frames are the chunk's; the others will come again.
    """
    seen = torch.cat([state.history, mean_square], 1)[:, -HISTORY:]
    known = seen >= 0
    loud, quiet = (_quantile(seen, known, q) for q in (LOUD, QUIET))
    counts = known & (seen >= DEPTH * loud[:, None])
    mean = (seen * counts).sum(1) / counts.sum(1).clamp(min=1)
    level = torch.where(loud > CONTRAST * quiet, mean, state.level)
    gain = torch.where(level > 0, level_gain(level), torch.ones_like(level))
    history = torch.cat([state.history, mean_square[:, :own]], 1)[:, -HISTORY:]
    return gain, LevelState(history, level, quiet)


def loud_from(state: LevelState) -> Tensor:
    """The mean square `(batch,)` from which on a sound stands out from the background and against recent speech."""
    return torch.maximum(ABOVE_QUIET * state.quiet, BELOW_LEVEL * state.level)


def _quantile(x: Tensor, known: Tensor, q: float) -> Tensor:
    """The q-quantile `(batch,)` of the known values of each row of `x` (nearest rank)."""
    order = x.masked_fill(~known, torch.inf).sort(1).values
    rank = (q * (known.sum(1) - 1).clamp(min=0)).round().long()
    return order.gather(1, rank[:, None])[:, 0]

"""Level control of a stream: a gain that follows the level of recent speech and that silence does not drive up."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from asr.nn.features import level_gain

RECENT = 1000  # frames: the background is what lies under the last 8 s
SPEECH = 500  # frames: the level is that of the last 4 s of speech
QUIET = 0.10  # quantile of the recent frames that stands for the background
CONTRAST = 10.0  # power ratio (10 dB) by which speech is louder than the background
DEPTH = 10**-2.5  # power ratio (25 dB) below the level of speech at which its pauses begin
PAUSES = 0.7  # mean square of an utterance with its pauses over that of its speech alone
ABOVE_QUIET = 4.0  # power ratio (6 dB) from which on a sound stands out from the background


@dataclass
class LevelState:
    """What is known of the levels of a stream.

    Attributes:
        recent: `(batch, RECENT)` mean squares of the last frames, -1 where there were none yet.
        speech: `(batch, SPEECH)` mean squares of the last frames that were speech, likewise.
        quiet: `(batch,)` mean square of the background.
        level: `(batch,)` mean square of recent speech, 0 before the first.
    """

    recent: Tensor = field(metadata={"empty": -1})
    speech: Tensor = field(metadata={"empty": -1})
    quiet: Tensor
    level: Tensor

    @classmethod
    def start(cls, batch: int, like: Tensor) -> LevelState:
        none, zero = like.new_full((batch, RECENT), -1.0), like.new_zeros(batch)
        return cls(none, none[:, :SPEECH], zero, zero)


def follow_level(mean_square: Tensor, own: int, state: LevelState) -> tuple[Tensor, LevelState]:
    """The gain `(batch,)` for a chunk.

    Speech are frames that are well above the background and not far below the speech so far. The level is their mean
    over the last four seconds of speech, however long ago these were: silence and steady noise change nothing. Before
    any speech the gain is 1. Where nothing has reached the level of the speech so far for eight seconds and yet
    something stands out, someone speaks more softly: the level is sought anew.

    Args:
        mean_square: `(batch, frames)` of the chunk and of what is known after it.
        own: how many of these frames are the chunk's; the others will come again.
    """
    seen = torch.cat([state.recent, mean_square], 1)[:, -RECENT:]
    quiet = _quantile(seen, QUIET)
    lost = (seen.amax(1) < DEPTH * state.level) & (seen.amax(1) > CONTRAST * quiet) & (seen[:, 0] >= 0)
    known = torch.where(lost[:, None], -1.0, state.speech)
    before = _mean(known)
    is_speech = (mean_square > CONTRAST * quiet[:, None]) & (mean_square > DEPTH * before[:, None])
    heard = torch.cat([known, mean_square.masked_fill(~is_speech, -1.0)], 1)
    level = PAUSES * _mean(heard)
    gain = torch.where(level > 0, level_gain(level), torch.ones_like(level))
    recent = torch.cat([state.recent, mean_square[:, :own]], 1)[:, -RECENT:]
    return gain, LevelState(recent, _last(heard[:, : known.shape[1] + own], SPEECH), quiet, level)


def loud_from(state: LevelState) -> Tensor:
    """The mean square `(batch,)` from which on a sound stands out from the background and against recent speech."""
    return torch.maximum(ABOVE_QUIET * state.quiet, DEPTH * state.level)


def _mean(x: Tensor) -> Tensor:
    """Mean `(batch,)` of the values of each row that are known (not negative); 0 where none is."""
    known = x >= 0
    return x.masked_fill(~known, 0).sum(1) / known.sum(1).clamp(min=1)


def _last(x: Tensor, count: int) -> Tensor:
    """The last `count` known values of each row, in order, after as many -1 as are missing."""
    order = (x >= 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return x.gather(1, order)[:, -count:]


def _quantile(x: Tensor, q: float) -> Tensor:
    """The q-quantile `(batch,)` of the known values of each row (nearest rank)."""
    known = x >= 0
    order = x.masked_fill(~known, torch.inf).sort(1).values
    rank = (q * (known.sum(1) - 1).clamp(min=0)).round().long()
    return order.gather(1, rank[:, None])[:, 0]

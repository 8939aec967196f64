"""What the batches of a step come to, over all processes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from asr.training.forward import BatchLoss
from asr.training.progress import finite
from asr.training.team import Team


@dataclass
class Tally:
    """Sums over the batches of a step.

    Attributes:
        parts: each loss.
        loss: what is minimised.
        batches: how many there were.
        seconds: audio in them.
        stops: processes that want to end after the step.
        names: utterances of the first batch whose loss is not finite; else of the first.
        last: the result of the last batch.
    """

    parts: dict[str, float]
    loss: float = 0.0
    batches: float = 0.0
    seconds: float = 0.0
    stops: float = 0.0
    names: tuple[str, ...] = ()
    last: BatchLoss | None = None

    def add(self, result: BatchLoss) -> None:
        """Takes in a batch."""
        if not self.names or (finite(result.value) is None and finite(self.loss) is not None):
            self.names = result.names
        self.loss += result.value
        self.batches += 1
        self.seconds += result.seconds
        self.parts = {name: value + result.parts[name] for name, value in self.parts.items()}
        self.last = result

    def together(self, team: Team) -> Tally:
        """Everybody's sums, with this process's names and last result."""
        loss, batches, seconds, stops, *parts = team.sum(
            [self.loss, self.batches, self.seconds, self.stops, *self.parts.values()]
        )
        named = dict(zip(self.parts, parts, strict=True))
        return replace(self, parts=named, loss=loss, batches=batches, seconds=seconds, stops=stops)

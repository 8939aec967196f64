"""What is known along a stream, by absolute position; its past is forgotten."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.nn.gate import SpeechGate


class Track:
    """A tensor `(positions, ...)` that begins at an absolute position.

    Args:
        empty: `(0, ...)`, of the shape, type and device of what will come.

    Attributes:
        start: position of the first row that is kept.
        values: `(positions, ...)` the rows from there on.
    """

    def __init__(self, empty: Tensor, start: int = 0) -> None:
        self.values, self.start = empty, start

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.start + len(self.values)

    def append(self, values: Tensor) -> None:
        self.values = torch.cat([self.values, values])

    def between(self, start: int, end: int) -> Tensor:
        """The rows of positions `[start, end)`."""
        return self.values[start - self.start : end - self.start]

    def replace(self, start: int, values: Tensor) -> None:
        """Puts better rows in place from position `start` on."""
        self.values[start - self.start :][: len(values)] = values

    def forget(self, position: int) -> None:
        """Lets go of what lies before a position."""
        drop = min(position - self.start, len(self.values))
        if drop > 0:
            self.values, self.start = self.values[drop:].clone(), self.start + drop


class GateTrack:
    """The gate along one stream: the probability of speech at each position, as far as it is known.

    Args:
        gate: shared by all streams.
    """

    def __init__(self, gate: SpeechGate) -> None:
        self.gate = gate
        self._state = gate.start()
        self._known = Track(gate.vit.token.new_zeros(0), -gate.lag)

    def accept(self, log_power: Tensor) -> None:
        """The next frames `(1, time, mels)` of log10 power."""
        fresh, self._state = self.gate(log_power, self._state)
        self._known.append(fresh[0])

    def between(self, start: int, end: int, heard: int | None = None) -> Tensor:
        """Probabilities `(end - start,)` of positions `[start, end)`, as known after `heard` frames (default: all).

        Positions that are not judged by then have the probability of the last one that is, 0 where none is; those that
        were forgotten have that of the first one that is kept.
        """
        known, gate = self._known, self.gate
        judged = len(known.values)
        if heard is not None:
            judged = min(judged, heard // gate.step * gate.positions - gate.lag - known.start)
        if judged <= 0:
            return known.values.new_zeros(end - start)
        index = torch.arange(start, end, device=known.values.device) - known.start
        return known.values[index.clamp(0, judged - 1)]

    def forget(self, position: int) -> None:
        """Lets go of what lies before a position, but for the last one that is known."""
        self._known.forget(min(position, self._known.end - 1))

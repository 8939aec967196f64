"""The level meter: a bar that rises at once and falls slowly, a mark that holds, and in words what is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

QUIETEST = -60.0  # dB of full scale at the empty end
FALL = 20 / 1.7  # dB a second, as a peak programme meter of IEC 60268-10, type I, falls
HOLD = 1.5  # s that the mark stays at the highest level
FULL_SCALE = 0.999  # of a sample, from which on it counts as clipped
TELL_CLIPPED = 3.0  # s that clipping is told after the last clipped sample
QUIET = -50.0  # dB below which speech is too quiet
QUIET_AFTER = 3.0  # s that nothing was louder


@dataclass
class Meter:
    """What a meter shows of the sound so far; its time is that of the sound (seconds).

    Attributes:
        level: of the bar, dB of full scale: the root mean square of the sound, which falls by `FALL` at most.
        held: of the mark, dB of full scale: the highest level of the last `HOLD` seconds, then falling as the bar does.
    """

    level: float = -math.inf
    held: float = -math.inf
    _now: float = 0.0
    _held_at: float = -math.inf
    _clipped_at: float = -math.inf
    _loud_at: float = 0.0

    def update(self, level: float, peak: float, now: float) -> None:
        """Goes on to `now`, with the root mean square and the largest sample, 0 to 1, of the sound since."""
        heard, fallen = 20 * math.log10(max(level, 1e-9)), FALL * max(0.0, now - self._now)
        self._now = now
        self.level = max(heard, self.level - fallen)
        if self.level >= self.held:
            self.held, self._held_at = self.level, now
        elif now - self._held_at > HOLD:
            self.held = max(self.level, self.held - fallen)
        if heard >= QUIET:
            self._loud_at = now
        if peak >= FULL_SCALE:
            self._clipped_at = now

    @property
    def clipping(self) -> bool:
        """Whether the sound has just reached full scale."""
        return self._now - self._clipped_at < TELL_CLIPPED

    @property
    def quiet(self) -> bool:
        """Whether nothing has been loud enough for speech for a while."""
        return self._now - self._loud_at >= QUIET_AFTER

    def bar(self, cells: int, unicode: bool) -> str:
        """Level and mark in so many characters, from `QUIETEST` to 0 dB."""

        def length(decibels: float) -> int:
            return round(cells * min(1.0, max(0.0, 1 - decibels / QUIETEST)))

        on, off, mark = "█░▌" if unicode else "#-|"
        full, held = length(self.level), length(self.held)
        bar = on * full + off * (cells - full)
        return bar[: held - 1] + mark + bar[held:] if held > full else bar

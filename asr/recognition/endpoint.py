"""Where utterances begin and end, from the loudness of each position and what CTC hears in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr.audio.samples import is_number
from asr.errors import ConfigError

MARGIN = 0.3  # s kept before the first and after the last sound of an utterance
REACH = 1.0  # s at most by which loudness that the gate does not call speech widens an utterance
SHORTEST = 0.05  # s of sound that open an utterance: shorter ones are clicks
BEST_PAUSE = 0.5  # share of the longest utterance, at its end, in which the best pause is looked for


@dataclass(frozen=True)
class EndpointRules:
    """When an utterance ends. Times in seconds; infinity switches a rule off.

    Attributes:
        pause: silence after something was said.
        unheard: CTC has heard nothing for so long, though it is not silent (noise, music).
        longest: an utterance is cut at its best pause when it gets longer.

    Raises:
        ConfigError: one of them is not above 0.
    """

    pause: float = 1.2
    unheard: float = 5.0
    longest: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not is_number(value) or not value > 0:
                raise ConfigError(f"endpoint rule {name}: must be seconds above 0, or infinity, not {value!r}")


@dataclass(frozen=True)
class Segment:
    """An utterance: positions `[start, end)`, and why it ended (`Endpoint.reason`)."""

    start: int
    end: int
    reason: str


def best_pause(loudness: Sequence[float], seconds: float) -> int:
    """Where to cut: the middle of the quietest 0.3 s without a heard position, late in what is too long.

    Args:
        loudness: mean square of each position, infinity where CTC hears something.
        seconds: how long a position is.
    """
    width = max(1, round(MARGIN / seconds))
    windows = range(int(len(loudness) * (1 - BEST_PAUSE)), len(loudness) - width)
    best = min(windows, key=lambda i: max(loudness[i : i + width]), default=len(loudness) - 1)
    return best + width // 2


@dataclass
class Endpointer:
    """Cuts a stream of positions into utterances.

    A position has sound when it is loud against the recent past or when CTC hears something in it. An utterance starts
    with sound (a margin before it) and ends by `EndpointRules`. Positions that belong to no utterance hold no sound.
    Where a gate tells which loud positions are speech, it says whether there is an utterance, not where it is cut: loud
    positions next to its first and last sound belong to it.

    Attributes:
        rules: when utterances end.
        seconds: how long a position is.
        position: number of the next position.
        floor: earliest position that may still become part of an utterance.
    """

    rules: EndpointRules
    seconds: float
    position: int = 0
    floor: int = 0
    _first: int | None = None  # first position with sound of the open utterance
    _last: int = -1  # last position with sound
    _last_heard: int = -1  # last position where CTC heard something
    _run: int = 0  # positions with sound in a row
    _audible: int = 0  # positions in a row that are loud or have sound
    _end: int = -1  # last position with sound, or loud and next to it
    _loudness: list[float] = field(default_factory=list)  # of the open utterance's positions

    @property
    def open(self) -> bool:
        """Whether an utterance has begun (at `floor`) and not ended."""
        return self._first is not None

    def _positions(self, seconds: float) -> float:
        return seconds / self.seconds

    def accept(self, loud: bool, heard: bool, power: float, audible: bool | None = None) -> Segment | None:
        """The next position: whether it is loud, whether CTC hears something in it, and its mean square.

        `audible`: whether it is loud, speech or not, where a gate has had its say in `loud`; None: as `loud`.
        """
        now, self.position = self.position, self.position + 1
        sound = loud or heard
        self._run = self._run + 1 if sound else 0
        self._audible = self._audible + 1 if sound or audible else 0
        if self._first is None:
            if not heard and self._run < self._positions(SHORTEST):
                before = max(self._run, min(self._audible, math.ceil(self._positions(REACH))))
                margin = math.ceil(self._positions(MARGIN)) + before
                self.floor = max(self.floor, self.position - margin)
                return None
            self._first = self._last_heard = now
            self._loudness = [math.inf] * (now - self.floor)
        self._loudness.append(math.inf if heard else power)
        if sound:
            self._last = self._end = now
        elif audible and self._end == now - 1 and now - self._last <= self._positions(REACH):
            self._end = now
        if heard:
            self._last_heard = now
        if now - self._last >= self._positions(self.rules.pause):
            return self._close(min(self._end + 1 + math.ceil(self._positions(MARGIN)), self.position), "pause")
        if now - self._last_heard >= self._positions(self.rules.unheard):
            return self._close(self.position, "pause")
        if self.position - self.floor >= self._positions(self.rules.longest):
            return self._close(self.floor + best_pause(self._loudness, self.seconds), "length")
        return None

    def finish(self) -> Segment | None:
        """The end of the stream: what is still open."""
        return None if self._first is None else self._close(self.position, "end")

    def _close(self, end: int, reason: str) -> Segment:
        segment = Segment(self.floor, end, reason)
        open_again = reason == "length"
        self._loudness = self._loudness[end - self.floor :] if open_again else []
        self.floor = end
        self._first = end if open_again else None
        self._run = 0
        return segment

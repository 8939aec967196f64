"""What a stream says: the records that every front end prints, writes or sends. Times are seconds of stream time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Word:
    """A word of a final: when it was said and how sure the recogniser is (0 to 1)."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Partial:
    """The words of the utterance that is open, as far as they are known; a later partial or the final replaces it.

    Attributes:
        text: the whole hypothesis.
        stable: the prefix of `text` that no later partial of this utterance will change.
        start: where the utterance began.
        end: up to where it was heard.
    """

    text: str
    stable: str
    start: float
    end: float


@dataclass(frozen=True)
class Final:
    """The words of an utterance that has ended; they will not change."""

    text: str
    start: float
    end: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Endpoint:
    """Where an utterance ended, and why: `pause`, `length` or `end` (of the stream)."""

    time: float
    reason: str


Event = Partial | Final | Endpoint


def on_clock(event: Event, clock: Callable[[float], float]) -> Event:
    """The event with its times (seconds) as another clock shows them."""
    if isinstance(event, Endpoint):
        return replace(event, time=clock(event.time))
    event = replace(event, start=clock(event.start), end=clock(event.end))
    if isinstance(event, Final):
        words = (replace(word, start=clock(word.start), end=clock(word.end)) for word in event.words)
        event = replace(event, words=tuple(words))
    return event


def as_dict(event: Event) -> dict[str, Any]:
    """An event as plain JSON values, with its `type`; seconds to the millisecond."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 3)
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        return [rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return {"type": type(event).__name__.lower(), **rounded(asdict(event))}

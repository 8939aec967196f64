"""What a stream says: the records that every front end prints, writes or sends. Times are seconds of stream time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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


def as_dict(event: Event) -> dict[str, Any]:
    """An event as plain JSON values, with its `type`; seconds to the millisecond."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 3)
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        return [rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return {"type": type(event).__name__.lower(), **rounded(asdict(event))}

"""A live session: sound from a source goes through a stream to a view, while it sounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from asr.audio.microphone import Statistics
from asr.errors import AudioError
from asr.events import Event, Final, on_clock
from asr.recognition.stream import Stream


class Source(Protocol):
    """Where the sound comes from: iterated over for float32 mono blocks `(samples,)`; see `Microphone`.

    Attributes:
        name: what people know it by.
        sample_rate: hertz.
        level: of the last block, as a meter shows it.
        statistics: what was late or lost.
        skipped: where (seconds) its clock goes on by how many more seconds than the blocks do.
    """

    name: str
    sample_rate: int
    level: float
    statistics: Statistics
    skipped: list[tuple[float, float]]

    def __iter__(self) -> Iterator[np.ndarray]: ...
    def stop(self) -> None: ...


class View(Protocol):
    """Where the events go, and what else there is to say."""

    def event(self, event: Event) -> None: ...
    def progress(self, level: float, lag: float, seconds: float, peak: float) -> None: ...
    def tell(self, line: str) -> None: ...


class Keeper(Protocol):
    """What keeps the sound; see `Recorder`."""

    def write(self, block: np.ndarray) -> None: ...
    def write_silence(self, seconds: float) -> None: ...


def listen(source: Source, stream: Stream, view: View, keeper: Keeper | None = None) -> bool:
    """Delivers what is heard until the sound ends; whether that was any words.

    Raises:
        AudioError: the source failed; what was heard until then has been delivered.
    """

    def clock(seconds: float) -> float:
        return seconds + sum(skipped for at, skipped in source.skipped if at <= seconds)

    heard, failure, kept = False, None, 0

    def deliver(events: list[Event]) -> None:
        nonlocal heard
        for event in events:
            heard |= isinstance(event, Final)
            view.event(on_clock(event, clock))

    try:
        for block in source:
            if keeper is not None:
                try:
                    for _, skipped in source.skipped[kept:]:
                        keeper.write_silence(skipped)
                    kept = len(source.skipped)
                    keeper.write(block)
                except AudioError as error:
                    view.tell(f"{error}; listening goes on without it")
                    keeper = None
            deliver(stream.accept(block, source.sample_rate))
            peak = float(np.abs(block).max(initial=0))
            view.progress(source.level, source.statistics.lag, clock(stream.seconds), peak)
    except AudioError as error:
        failure = error
    deliver(stream.finish())
    if failure is not None:
        raise failure
    return heard

"""Several sources at once: each in a channel, one view."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from asr.cli.speakers import InTurns, Labelled
from asr.errors import AudioError
from asr.events import Endpoint, Event, Final, Partial
from asr.recognition.side_by_side import listen_side_by_side


class Seen:
    """A view that keeps what it gets, and whether two threads were in it at once."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, ...]] = []
        self.inside, self.crowded = 0, False

    def event(self, *event: object) -> None:
        self.inside += 1
        self.crowded |= self.inside > 1
        self.events.append(event)
        self.inside -= 1

    def progress(self, *state: float) -> None:
        """Not looked at."""

    def tell(self, line: str) -> None:
        raise AssertionError(line)

    warn = tell


def texts(seen: Seen) -> list[str]:
    return [event.text for (event,) in seen.events if not isinstance(event, Endpoint)]


def test_a_display_shows_what_is_open_in_every_channel_under_its_label():
    seen = Seen()
    view = Labelled(seen)
    view.event(Partial("good mor", "good", 0, 1), 2)
    view.event(Partial("hello", "", 0, 2), 1)
    view.event(Final("Good morning.", 0, 2), 2)
    view.event(Endpoint(2, "pause"), 2)
    view.event(Final("Hello.", 0, 2), 1)
    assert texts(seen) == [
        "Channel 2: good mor",
        "Channel 1: hello  Channel 2: good mor",
        "Channel 2: Good morning.",
        "Channel 1: hello",
        "Channel 1: hello",
        "Channel 1: Hello.",
    ]
    assert seen.events[0][0].stable == "Channel 2: good"
    assert seen.events[1][0].stable == ""


class Blocks:
    """A source of silence that goes on until it is stopped, or fails after some blocks."""

    name, sample_rate, level, statistics, skipped = "blocks", 16000, 0.0, SimpleNamespace(lag=0.0), []

    def __init__(self, failing_after: int | None = None) -> None:
        self._left, self._stopped = failing_after, threading.Event()

    def __iter__(self):
        while not self._stopped.wait(0.001):
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise AudioError("it is gone")
            yield np.zeros(160, np.float32)

    def stop(self) -> None:
        self._stopped.set()


class Naming:
    """A stream that hears its name in every block."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds = name, 0.0

    def accept(self, block: np.ndarray, rate: int) -> list[Event]:
        return [Final(self.name, 0, 1)]

    def finish(self) -> list[Event]:
        return [Final(f"the last of {self.name}", 0, 1)]


def test_a_source_that_fails_ends_the_others_and_nothing_that_was_heard_is_lost():
    seen = Seen()
    with pytest.raises(AudioError, match="it is gone"):
        listen_side_by_side([Blocks(), Blocks(failing_after=20)], [Naming("one"), Naming("two")], InTurns(seen))
    assert not seen.crowded
    heard = [(event.text, channel) for event, channel in seen.events]
    assert heard.count(("two", 2)) == 20
    assert {("the last of one", 1), ("the last of two", 2)} <= set(heard)
    assert {channel for text, channel in heard if "one" in text} == {1}

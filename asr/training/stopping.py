"""When to stop before the last step: Ctrl-C, SIGTERM or a time limit; the step that is being done is finished first."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType


class Stop:
    """A context in which SIGINT and SIGTERM ask for an end instead of making one; a second SIGINT is Ctrl-C as usual.

    Args:
        minutes: time limit, from the construction on; none = no limit.
        patient: the second SIGINT asks once more, too: `torchrun` passes on what the terminal has sent already.
    """

    def __init__(self, minutes: float | None = None, *, patient: bool = False) -> None:
        self._patient = patient
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self._signal: str | None = None
        self._before: dict[int, object] = {}

    @property
    def reason(self) -> str | None:
        """What asks for an end, in words; None = nothing does."""
        if self._signal is None and self._until is not None and time.monotonic() >= self._until:
            return "the time limit"
        return self._signal

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._signal is not None and not self._patient:
            raise KeyboardInterrupt
        self._signal = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"

"""What commands that listen share: signals that end the sound, libraries that keep quiet, what was lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import typer

from asr.cli.tell import tell

if TYPE_CHECKING:
    from asr.audio.microphone import Statistics

LAG_WORTH_TELLING = 2.0  # s that recognition was behind the sound


class Stoppable(Protocol):
    def stop(self) -> None: ...


class Hasty(Protocol):
    def hurry(self) -> None: ...


def summarise(statistics: Statistics) -> None:
    """Tells what was lost or late on the way from a source of sound."""
    faster = "--partials ctc or a larger --chunk-ms makes it faster"
    if statistics.overflows:
        tell(f"the sound system lost sound {statistics.overflows} times before it was handed over")
    if statistics.dropped_blocks:
        tell(
            f"recognition could not keep up: {statistics.dropped_seconds:.1f} s of sound were dropped "
            f"in {statistics.dropped_blocks} blocks; {faster}"
        )
    elif statistics.most_lag > LAG_WORTH_TELLING:
        tell(f"recognition was up to {statistics.most_lag:.1f} s behind the sound; {faster}")


class _TooEarly(KeyboardInterrupt):
    """A signal, before there was any sound."""


class Signals:
    """What SIGINT and SIGTERM do to a command that listens; a context manager for the main thread.

    The first one ends the command at once, with a line, while it loads; from `finish` on it ends the sound, so that the
    utterance is finished. A second one does as ever.
    """

    def __init__(self) -> None:
        self._source: Stoppable | None = None
        self._streams: tuple[Hasty, ...] = ()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._restore()
        if kind is _TooEarly:
            tell("ended before it listened")
            raise typer.Exit

    def finish(self, source: Stoppable, *streams: Hasty) -> None:
        """There is something to finish from now on."""
        self._source, self._streams = source, streams

    def _stop(self, number: int, frame: object) -> None:
        self._restore()
        if self._source is None:
            raise _TooEarly
        self._source.stop()
        for stream in self._streams:
            stream.hurry()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps PortAudio and ALSA, which write to the process's standard error, off it; what Python writes still comes."""
    sys.stderr.flush()
    ours = os.dup(2)
    python = sys.stderr
    with (
        open(ours, "w", encoding=python.encoding, errors="backslashreplace") as sys.stderr,
        open(os.devnull, "w") as null,
    ):
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            sys.stderr.flush()
            sys.stderr = python

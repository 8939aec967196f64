"""What commands that listen share: signals that end the sound, libraries that keep quiet, what was lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

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


@contextmanager
def signals_stop(source: Stoppable, *streams: Hasty) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends the sound, so that the utterance is finished; a second one does as ever."""

    def stop(number: int, frame: object) -> None:
        restore()
        source.stop()
        for stream in streams:
            stream.hurry()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


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

"""How a job went: counts and speed for people, all failures for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asr.errors import AsrError
from asr.files import write_whole
from asr.jobs.worker import Outcome


@dataclass
class Report:
    """A job so far.

    Attributes:
        total: inputs.
        skipped: names of those that were done before.
        done: inputs transcribed by this run.
        silent: names of those in which no words were heard.
        failed: input and reason of each failure.
        warnings: input and damage.
        seconds: sound decoded.
    """

    total: int
    skipped: Sequence[str] = ()
    done: int = 0
    silent: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _begun: dict[int, tuple[float, float]] = field(default_factory=dict)  # share and seconds done of open tasks

    def hear(self, number: int, share: float, seconds: float) -> None:
        """A further share of a task's sound is done with."""
        before = self._begun.get(number, (0.0, 0.0))
        self._begun[number] = before[0] + share, before[1] + seconds

    def add(self, outcome: Outcome) -> None:
        """Takes an outcome in."""
        self._begun.pop(outcome.number, None)
        if outcome.error is not None:
            self.failed.append((outcome.name, outcome.error))
            return
        self.done += 1
        self.seconds += outcome.seconds
        if outcome.warning is not None:
            self.warnings.append((outcome.name, outcome.warning))
        if outcome.known and not outcome.words:
            self.silent.append(outcome.name)

    @property
    def finished(self) -> int:
        """Inputs that nothing more is to be done for."""
        return len(self.skipped) + self.done + len(self.failed)

    @property
    def worked(self) -> float:
        """Inputs of this run, with the shares of those that are being worked on."""
        return self.done + len(self.failed) + sum(min(share, 1.0) for share, _ in self._begun.values())

    @property
    def status(self) -> int:
        """Exit status: 0 = all done; 1 = some inputs failed; 2 = of all that there were, none has words."""
        if self.total and len(self.failed) + len(self.silent) == self.total:
            return 2
        return 1 if self.failed else 0

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self.started

    @property
    def heard(self) -> float:
        """Seconds of sound decoded, those of inputs that are being worked on included."""
        return self.seconds + sum(seconds for _, seconds in self._begun.values())

    @property
    def speed(self) -> float:
        """Seconds of sound decoded in a second."""
        return self.heard / max(self.elapsed, 1e-9)

    def progress(self) -> str:
        """Where the job is, in one line."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        left = f", {clock(self.remaining)} left" if self.remaining is not None else ""
        return (
            f"{self.finished} of {self.total} files{failed}, {clock(self.heard)} of sound, "
            f"{self.speed:.1f} x real time{left}"
        )

    @property
    def remaining(self) -> float | None:
        """Seconds that the rest will take if it is like what is done; None while nothing is known."""
        if not self.worked or not self.heard:
            return None
        return (self.total - len(self.skipped) - self.worked) * self.elapsed / self.worked

    def summary(self) -> str:
        """How it went, in one line."""
        skipped = f"{len(self.skipped)} done before, " if self.skipped else ""
        return (
            f"{self.done} of {self.total} files transcribed, {skipped}{len(self.failed)} failed: "
            f"{clock(self.seconds)} of sound in {clock(self.elapsed)} ({self.speed:.1f} x real time)"
        )

    def as_dict(self) -> dict:
        """Plain JSON values."""
        return {
            "files": self.total,
            "transcribed": self.done,
            "done_before": len(self.skipped),
            "complete": self.finished == self.total,
            "audio_seconds": round(self.seconds, 3),
            "wall_seconds": round(self.elapsed, 3),
            "times_real_time": round(self.speed, 3),
            "failed": [{"file": name, "error": error} for name, error in sorted(self.failed)],
            "warnings": [{"file": name, "warning": warning} for name, warning in sorted(self.warnings)],
            "no_words": sorted(self.silent),
        }

    def write(self, path: Path) -> None:
        """Writes the report as JSON.

        Raises:
            AsrError: it cannot be written.
        """
        try:
            write_whole(path, json.dumps(self.as_dict(), ensure_ascii=False, indent=1) + "\n")
        except OSError as error:
            raise AsrError(f"cannot write the report {path}: {error.strerror}") from error


def clock(seconds: float) -> str:
    """Seconds as `12 s`, `3:05 min` or `2:07 h`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return f"{whole // 60}:{whole % 60:02d} min" if whole < 6000 else f"{whole // 3600}:{whole % 3600 // 60:02d} h"

"""What a person sees of a run: a progress bar on a terminal, a plain line every so often elsewhere."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

from asr.text import printable

PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


@dataclass(frozen=True)
class StepReport:
    """One step in numbers; written to the log as it is.

    Attributes:
        step: counted from 1.
        epoch: of its last batch, counted from 0.
        loss: mean over its batches; none = not finite.
        gradient_norm: before clipping; none = not finite or not computed.
        learning_rate: of the step.
        audio_per_second: seconds of audio trained on per second.
        chunk: positions of its last batch's chunk; 0 = full context.
        look_ahead: likewise.
        losses: each loss that makes up `loss`.
        skipped: why the weights were not changed; none = they were.
    """

    step: int
    epoch: int
    loss: float | None
    gradient_norm: float | None
    learning_rate: float
    audio_per_second: float
    chunk: int
    look_ahead: int
    losses: dict[str, float]
    skipped: str | None = None

    @property
    def loss_text(self) -> str:
        return "not finite" if self.loss is None else f"{self.loss:.3f}"

    def __str__(self) -> str:
        return f"epoch {self.epoch}, loss {self.loss_text}, {self.audio_per_second:.0f} s of audio a second"


def finite(value: float) -> float | None:
    """A number as JSON can write it; None for NaN and infinity."""
    return value if math.isfinite(value) else None


class Display:
    """Shows steps on standard error, unless it is `silent`; a context manager around those that come after `first`."""

    def __init__(self, total: int, *, silent: bool = False) -> None:
        self.first, self._total, self._silent = 0, total, silent
        self._begin = self._last = 0.0
        self._bar = self._task = None

    def __enter__(self) -> Display:
        self._begin = time.monotonic()
        if sys.stderr.isatty() and not self._silent:
            self._bar, self._task = _make_bar(self.first, self._total)
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._silent:
            return
        text = printable(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)  # broken between words
        else:
            print(text, file=sys.stderr, flush=True)

    def step(self, report: StepReport) -> None:
        """A step has been done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=report.step, loss=report.loss_text, speed=report.audio_per_second)
            return
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY or report.step == self._total:
            self._last = now
            self.line(f"step {report.step}/{self._total}: {report}{self._remaining(report.step, now)}")

    def _remaining(self, step: int, now: float) -> str:
        """How long it will take, from the second step on."""
        done = step - self.first
        if done < 2 or step == self._total:
            return ""
        seconds = (now - self._begin) / done * (self._total - step)
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"


def _make_bar(first: int, total: int) -> tuple:
    """A bar in one line, as wide as the terminal; it goes when the run ends."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        MofNCompleteColumn(),
        BarColumn(bar_width=None),
        TimeRemainingColumn(),
        TextColumn("left, loss {task.fields[loss]}, {task.fields[speed]:.0f} x real time"),
        console=Console(stderr=True),
        expand=True,
        transient=True,
    )
    return bar, bar.add_task("", total=total, completed=first, loss="-", speed=0.0)

"""Many recordings: to files or to one stream, with progress, and a report of what failed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from asr.cli.options import Engine
from asr.cli.tell import tell
from asr.errors import AsrError
from asr.files import locked, sweep
from asr.jobs.inputs import Input
from asr.jobs.job import run_local, sensible_jobs
from asr.jobs.plan import Task, plan, refuse_replacing
from asr.jobs.report import Report
from asr.jobs.worker import Heard, Outcome, Settings

if TYPE_CHECKING:
    from asr.formats import Writer

REPORT = "asr-report.json"  # in the folder of the outputs
MOST_LOCKS = 100  # folders, each of which costs an open file
PROGRESS_EVERY = 30.0  # s between lines where there is no terminal


def transcribe_to_files(
    inputs: Sequence[Input],
    formats: Sequence[str],
    folder: Path | None,
    settings: Settings,
    jobs: int | None,
    engine: Engine,
    address: str | None,
    resume: bool,
    overwrite: bool,
    report_path: Path | None,
) -> int:
    """Files for each input; the exit status.

    Raises:
        AsrError: files are there already and neither `resume` nor `overwrite` says what to do; no folder can be made;
            no model; no cluster; no room for results.
    """
    tasks = plan(inputs, formats, folder)
    left = [task for task in tasks if not (resume and task.done())]
    if not (resume or overwrite):
        refuse_replacing(tasks)
    if folder is not None:
        _make(folder)
    for task in left:
        for path in task.outputs.values():
            sweep(path)
    before = {task.number for task in left}
    report = Report(len(tasks), [task.input.name for task in tasks if task.number not in before])
    report_path = report_path or (folder and folder / REPORT)
    try:
        with (
            _progress(report) as show,
            _signals_stop(),
            _alone({Path(p).parent for t in left for p in t.outputs.values()}),
        ):
            for outcome in _run(left, settings, jobs, engine, address, _watched(report, show)) if left else ():
                report.add(outcome)
                show()
                if outcome.no_room:
                    raise AsrError(f"{outcome.error}: make room and go on with --resume")
    except _Stopped as stopped:
        tell(f"stopped: {report.summary()}; the same command with --resume goes on")
        raise typer.Exit(128 + stopped.number) from stopped
    finally:
        written = report_path is None or not report.finished or _write_report(report, report_path)
    for _, line in sorted(report.warnings) + sorted(report.failed):
        tell(line)
    for name in sorted(report.silent):
        tell(f"{name}: no words heard")
    tell(report.summary())
    return report.status or int(not written)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise AsrError(f"--output-dir {folder}: not a folder that can be made: {reason}") from error


def _write_report(report: Report, path: Path) -> bool:
    """Whether it could be written; if not, that is said, and hides nothing else."""
    try:
        report.write(path)
    except AsrError as error:
        tell(str(error))
        return False
    return True


def transcribe_to_stream(
    inputs: Sequence[Input],
    writer: Writer,
    settings: Settings,
    jobs: int | None,
    engine: Engine,
    address: str | None,
    report_path: Path | None,
) -> int:
    """All inputs to one writer, in their order; the exit status.

    Raises:
        typer.Exit: all of them failed: there is nothing to write.
    """
    tasks = [Task(number, item) for number, item in enumerate(inputs)]
    report, waiting, turn = Report(len(tasks)), {}, 0
    with _progress(report, quiet=True) as show:
        for outcome in _run(tasks, settings, jobs, engine, address, _watched(report, show), in_order=True):
            report.add(outcome)
            show()
            waiting[outcome.number] = outcome
            while turn in waiting:
                _write(writer, waiting.pop(turn))
                turn += 1
    written = report_path is None or _write_report(report, report_path)
    if not report.done:
        raise typer.Exit(report.status)
    return report.status or int(not written)


def _run(
    tasks: Sequence[Task],
    settings: Settings,
    jobs: int | None,
    engine: Engine,
    address: str | None,
    heard: Heard,
    in_order: bool = False,
) -> Iterator[Outcome]:
    if engine is Engine.ray:
        from asr.jobs.ray_engine import run_ray

        return run_ray(tasks, settings, address, in_order)
    return run_local(tasks, settings, min(jobs or sensible_jobs(tasks, settings.device), len(tasks)), in_order, heard)


def _write(writer: Writer, outcome: Outcome) -> None:
    """One input's events, and what there is to say of it."""
    if outcome.error is not None:
        tell(outcome.error)
        return
    writer.begin(outcome.name)
    for event, channel in outcome.events:
        writer.event(event, channel)
    writer.end(outcome.seconds)
    if outcome.warning:
        tell(outcome.warning)
    if not outcome.seconds:
        tell(f"{outcome.name}: holds no sound (0 s long)")
    elif not outcome.words:
        tell(f"{outcome.name}: no words heard in {outcome.seconds:.1f} s")


class _Stopped(KeyboardInterrupt):
    """By a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _signals_stop() -> Iterator[None]:
    """SIGINT and SIGTERM raise `_Stopped`, once: what follows is heard when everything has been put away."""

    def stop(number: int, frame: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _alone(folders: Iterable[Path]) -> Iterator[None]:
    """Folders that are written to; says so where another process writes to one of them, too."""
    with ExitStack() as held:
        taken = [folder for folder in sorted(folders)[:MOST_LOCKS] if not held.enter_context(locked(folder))]
        if taken:
            tell(f"{taken[0]}: another asr is writing there, too; if its files are the same, stop one of the two")
        yield


def _watched(report: Report, show: Callable[[], None]) -> Heard:
    """What is heard on the way goes into the report, and is shown."""

    def heard(number: int, share: float, seconds: float) -> None:
        report.hear(number, share, seconds)
        show()

    return heard


@contextmanager
def _progress(report: Report, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Where the job is: a bar on a terminal, else a line now and then (none if `quiet`)."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line() -> None:
            nonlocal last
            if not quiet and time.monotonic() - last > PROGRESS_EVERY:
                last = time.monotonic()
                tell(report.progress())

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = BarColumn(bar_width=max(8, min(40, console.width - 70))), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True) as bar:
        task, before = bar.add_task(report.progress(), total=report.total), len(report.skipped)
        yield lambda: bar.update(task, completed=before + report.worked, description=report.progress())

"""Worker processes on this machine. One that dies takes down only the recording that killed it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from asr.errors import AsrError
from asr.jobs.plan import Task
from asr.jobs.worker import Heard, Outcome, Settings, Worker, unheard


@dataclass
class _Process:
    process: BaseProcess
    pipe: Connection
    open: list[Task] = field(default_factory=list)  # given to it and not yet reported


def run_processes(
    groups: Sequence[Sequence[Task]], settings: Settings, jobs: int, heard: Heard = unheard
) -> Iterator[Outcome]:
    """Works groups of tasks off in `jobs` processes, one thread each unless `settings` say otherwise.

    When a process dies (a decoder that crashes on a hostile file, memory that has run out), what it had not reported is
    tried again one by one; what ends a process twice while it is alone there is a failure.

    Raises:
        AsrError: the processes cannot load the model.
    """
    waiting: deque[list[Task]] = deque(list(group) for group in groups if group)
    context = multiprocessing.get_context("spawn")
    workers: list[_Process] = []
    suspects: set[int] = set()
    try:
        while waiting or any(worker.open for worker in workers):
            workers = [worker for worker in workers if worker.open or worker.process.is_alive()]
            idle = [worker for worker in workers if not worker.open]
            while waiting and (idle or len(workers) < jobs):
                worker = idle.pop() if idle else _start(context, settings)
                if worker not in workers:
                    workers.append(worker)
                worker.open = waiting.popleft()
                _send(worker, worker.open)
            for pipe in wait([worker.pipe for worker in workers if worker.open]):
                worker = next(w for w in workers if w.pipe is pipe)
                try:
                    message = pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    yield from _bury(worker, waiting, suspects)
                    continue
                if isinstance(message, AsrError):
                    raise message
                if not isinstance(message, Outcome):
                    heard(*message)
                    continue
                worker.open = [task for task in worker.open if task.number != message.number]
                yield message
    finally:
        for worker in workers:
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()


def _start(context: multiprocessing.context.SpawnContext, settings: Settings) -> _Process:
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, settings), daemon=True)
    process.start()
    theirs.close()
    return _Process(process, ours)


def _send(worker: _Process, tasks: list[Task]) -> None:
    try:
        worker.pipe.send(tasks)
    except OSError:  # it has died: its pipe says so when it is read
        return


def _bury(worker: _Process, waiting: deque[list[Task]], suspects: set[int]) -> Iterator[Outcome]:
    """What was open goes back to the queue, one by one; a task that was alone, and had been before, has failed."""
    worker.process.join()
    alone = worker.open[0] if len(worker.open) == 1 else None
    if alone is None or alone.number not in suspects:
        waiting.extendleft([task] for task in reversed(worker.open))
        suspects |= {alone.number} if alone is not None else set()
        return
    code, name = worker.process.exitcode, alone.input.name
    how = signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"
    yield Outcome(alone.number, name, error=f"{name}: decoding it ended the process ({how})")


def _work(pipe: Connection, settings: Settings) -> None:
    """A worker process: groups of tasks come in, what has been heard and an outcome for each task go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        worker = Worker(settings)
    except AsrError as error:
        pipe.send(error)
        return
    while True:
        try:
            tasks = pipe.recv()
        except (EOFError, OSError):
            return
        for outcome in worker.run(tasks, lambda *heard: pipe.send(heard)):
            pipe.send(outcome)


def _end_with_parent() -> None:
    """A parent that was killed leaves no process behind that still writes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

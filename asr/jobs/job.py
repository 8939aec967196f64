"""A job: tasks in groups, worked off by this process, by several, or by a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from asr.jobs.plan import Task
from asr.jobs.worker import Heard, Outcome, Settings, Worker, unheard

GROUP = 48  # tasks that a process is given at once
GROUP_BYTES = 32_000_000
GROUPS_A_PROCESS = 4  # at least, so that all end at about the same time
BYTES_WORTH_A_PROCESS = 1_500_000  # it takes seconds to start one


def sensible_jobs(tasks: Sequence[Task], device: str) -> int:
    """Processes that are worth their start: at most one a core, and one alone on a graphics processor."""
    if device != "cpu":
        return 1
    size = sum(task.input.size() for task in tasks)
    return max(1, min(usable_cores(), len(tasks), size // BYTES_WORTH_A_PROCESS))


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_groups(tasks: Sequence[Task], processes: int, in_order: bool) -> list[list[Task]]:
    """Tasks that are handed out together. Large files come first, unless results are wanted in order: the last process
    to end then ends early, and files in a group are of similar length."""
    sizes = {task.number: task.input.size() for task in tasks}
    order = list(tasks) if in_order else sorted(tasks, key=lambda task: -sizes[task.number])
    most = max(1, min(GROUP, -(-len(order) // (GROUPS_A_PROCESS * processes)))) if processes > 1 else GROUP
    groups: list[list[Task]] = []
    filled = 0
    for task in order:
        if not groups or len(groups[-1]) >= most or filled + sizes[task.number] > GROUP_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(task)
        filled += sizes[task.number]
    return groups


def run_local(
    tasks: Sequence[Task],
    settings: Settings,
    jobs: int,
    in_order: bool = False,
    heard: Heard = unheard,
) -> Iterator[Outcome]:
    """Outcomes as they come, from this process or from several of one thread each.

    Raises:
        AsrError: there is no such model or device.
    """
    groups = make_groups(tasks, jobs, in_order)
    if jobs == 1:
        worker = Worker(settings)
        for group in groups:
            yield from worker.run(group, heard)
        return
    from asr.jobs.pool import run_processes

    yield from run_processes(groups, replace(settings, threads=settings.threads or 1), jobs, heard)

"""The same job on a Ray cluster (`pip install 'asr[ray]'`): inputs and outputs on a disk that all machines see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from asr.errors import AsrError
from asr.jobs.job import make_groups
from asr.jobs.plan import Task
from asr.jobs.worker import Outcome, Settings, Worker

RETRIES = 5  # of a group whose worker or machine was lost
IN_FLIGHT = 4  # groups for each processor of the cluster that wait there


@lru_cache(maxsize=1)
def _worker(settings: Settings) -> Worker:
    """Each process of the cluster loads the model once."""
    return Worker(settings)


def _decode(settings: Settings, group: list[Task], since: float) -> list[Outcome] | AsrError:
    """The outcomes of a group. What a lost process has finished of it is not done twice."""
    try:
        worker = _worker(settings)
    except AsrError as error:
        return error
    left = [task for task in group if not task.done(since)]
    before = [Outcome(task.number, task.input.name, known=False) for task in group if task.done(since)]
    return before + list(worker.run(left))


def run_ray(
    tasks: Sequence[Task], settings: Settings, address: str | None = None, in_order: bool = False
) -> Iterator[Outcome]:
    """Outcomes as they come from a Ray cluster: at `address`, that of `RAY_ADDRESS`, or one of this machine.

    Each process takes one processor (or, where `settings.device` is no CPU, one graphics processor). Groups whose
    process or machine is lost are decoded again elsewhere; an outcome is given once.

    Raises:
        AsrError: Ray is not installed, there is no cluster, a group was lost too often, or there is no such model.
    """
    try:
        import ray
    except ImportError as error:
        raise AsrError("--engine ray needs Ray: pip install 'asr[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise AsrError(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from error
    on_cpu = settings.device == "cpu"
    needs = {"num_cpus": 1} if on_cpu else {"num_cpus": 1, "num_gpus": 1}
    settings = replace(settings, threads=settings.threads or 1) if on_cpu else settings
    remote = ray.remote(max_retries=RETRIES, **needs)(_decode)
    processes = max(1, int(ray.cluster_resources().get("CPU", 1)))
    groups = iter(make_groups(tasks, processes, in_order))
    since, running = time.time(), {}
    while True:
        while len(running) < IN_FLIGHT * processes and (group := next(groups, None)) is not None:
            running[remote.remote(settings, group, since)] = group
        if not running:
            return
        (ready,), _ = ray.wait(list(running), num_returns=1)
        group = running.pop(ready)
        try:
            result = ray.get(ready)
        except ray.exceptions.RayError as error:
            reason = type(error).__name__
            for task in group:
                yield Outcome(task.number, task.input.name, error=f"{task.input.name}: lost by the cluster ({reason})")
            continue
        if isinstance(result, AsrError):
            raise result
        yield from result

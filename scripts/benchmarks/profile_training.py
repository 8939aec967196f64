"""How fast a recipe trains on this machine, how near that is to what its processor can do, and what takes the time.

    python scripts/benchmarks/profile_training.py configs/tiny.yaml

of the corpus that configs/README.md makes, or another recipe with `--set 'data.train=[runs/mine/train.jsonl]'`:
runs a few steps of `asr train` in a folder that is thrown away, three times: as they are, to measure seconds of audio a
second (the first step warms up and is left out), with their floating-point operations counted, and under PyTorch's
profiler. The peak is what a large matrix product reaches with the same threads, in float32 and in bf16.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from asr.errors import AsrError
from asr.training.config import TrainConfig
from asr.training.load_config import load_config
from asr.training.run import SpeechRun
from asr.training.run_folder import RunFolder

SIZES = {"cpu": 1024, "cuda": 8192}  # rows and columns of the matrices whose product is the peak
SHOWN = 12  # operators


def peak(dtype: torch.dtype, device: torch.device) -> float:
    """Floating-point operations a second of a large matrix product, the best that is seen in a second."""
    size = SIZES.get(device.type, 1024)
    x, best, end = torch.randn(size, size, device=device).to(dtype), 0.0, time.perf_counter() + 1
    while True:
        begun = time.perf_counter()
        (x @ x).sum().item()
        now = time.perf_counter()
        best = max(best, 2 * size**3 / (now - begun))
        if now > end:
            return best


def run(config: TrainConfig, device: torch.device, steps: int, watch: AbstractContextManager) -> tuple[float, float]:
    """Trains; seconds of audio in all steps, and the median of seconds of audio a second in all but the first."""
    schedule = replace(config.schedule, steps=steps, checkpoint_minutes=1e6)
    config = replace(config, data=replace(config.data, dev=()), schedule=schedule)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.open(resume=False, restart=True)
        trainer = SpeechRun(config, folder, device).trainer()
        with watch:
            trainer.run()
        reports = [json.loads(line) for line in folder.log.read_text("utf-8").splitlines()]
    return trainer.progress.audio_seconds, median(report["audio_per_second"] for report in reports[1:] or reports)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", dest="values", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, default=3, help="that are timed, after the first")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        show(load_config(args.config, args.values), torch.device(args.device), args.steps)
    except AsrError as error:
        raise SystemExit(f"profile_training: {error}") from error


def show(config: TrainConfig, device: torch.device, steps: int) -> None:
    """Runs a few steps three times, and prints what was measured.

    Raises:
        AsrError: whatever the user can mend.
    """
    peaks = {kind: peak(kind, device) for kind in (torch.float32, torch.bfloat16)}
    _, speed = run(config, device, steps + 1, nullcontext())
    counter = FlopCounterMode(display=False)
    seconds, _ = run(config, device, 1, counter)
    work = counter.get_total_flops() / seconds
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with_profile = profile(activities=activities)
    run(config, device, 1, with_profile)
    print(f"peak {peaks[torch.float32] / 1e9:.0f} GFLOP/s in float32, {peaks[torch.bfloat16] / 1e9:.0f} in bf16")
    print(
        f"{speed:.1f} s of audio a second, {work / 1e9:.1f} GFLOP for each: {speed * work / 1e9:.0f} GFLOP/s, ", end=""
    )
    print(f"{100 * speed * work / max(peaks.values()):.0f} % of the higher peak")
    times = [(event.key, own_time(event), event.count) for event in with_profile.key_averages()]
    total = sum(took for _, took, _ in times)
    for name, took, count in sorted(times, key=lambda row: -row[1])[:SHOWN]:
        print(f"{100 * took / total:5.1f} %  {count:7} x {name}")


def own_time(event: FunctionEventAvg) -> float:
    """Microseconds that an operator itself took, where it ran."""
    return event.self_device_time_total or event.self_cpu_time_total


if __name__ == "__main__":
    main()

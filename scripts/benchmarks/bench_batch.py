"""Batch decoding against one recording after the other: wall and processor time, speed and peak memory.

    python scripts/benchmarks/bench_batch.py tests/data                 # both, on two cores
    python scripts/benchmarks/bench_batch.py tests/data --jobs 1

One by one is `Recognizer.utterances` on each file, with as many threads as the batch has processes. Results are
compared word by word. What else runs on the machine falls into the times; the ratio of processor times suffers least.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ONE_BY_ONE = """
import json, sys
from asr.jobs.inputs import find_inputs
from asr.files import write_whole
from asr.jobs.plan import plan
from asr.recognition.recognizer import Recognizer
from pathlib import Path
recognizer = Recognizer.load(threads=int(sys.argv[3]))
for task in plan(find_inputs([sys.argv[1]]), ["txt"], Path(sys.argv[2])):
    lines = [final.text for final in recognizer.utterances(task.input.open())]
    write_whole(task.outputs["txt"], "".join(line + "\\n" for line in lines))
"""


@dataclass(frozen=True)
class Cost:
    """Of a command with its processes: seconds of wall and processor, and peak memory (MB)."""

    wall: float
    processor: float
    memory: float


def run(command: list[str]) -> Cost:
    begun, peak, used = time.monotonic(), 0, {}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            total = 0
            try:
                for one in [watched, *watched.children(recursive=True)]:
                    total += one.memory_info().rss
                    times = one.cpu_times()
                    used[one.pid] = times.user + times.system
            except psutil.Error:
                continue
            peak = max(peak, total)
            time.sleep(0.1)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return Cost(time.monotonic() - begun, sum(used.values()), peak / 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        alone, batch = Path(place, "alone"), Path(place, "batch")
        jobs, folder = str(args.jobs), str(args.folder)
        costs = {
            f"one by one, {jobs} threads": run([sys.executable, "-c", ONE_BY_ONE, folder, str(alone), jobs]),
            f"batches, {jobs} processes": run(
                [sys.executable, "-m", "asr", "transcribe", folder, "-d", str(batch), "--jobs", jobs, "--threads", "1"]
            ),
        }
        seconds = json.loads((batch / "asr-report.json").read_text())["audio_seconds"]
        texts = {path.relative_to(alone): path.read_text() for path in alone.rglob("*.txt")}
        others = {name: (batch / name).read_text() if (batch / name).exists() else None for name in texts}
    different = [name for name, text in texts.items() if others[name] != text]
    for name, cost in costs.items():
        print(
            f"{name:24} {seconds / 3600:.3f} h  {cost.wall:7.1f} s  {seconds / cost.wall:5.2f} x real time  "
            f"{cost.processor:7.1f} s of processor  {cost.memory:6.0f} MB"
        )
    first, second = costs.values()
    wall, processor = second.wall / first.wall, second.processor / first.processor
    print(f"batches over one by one: wall {wall:.2f}, processor {processor:.2f}")
    print(f"{len(texts) - len(different)} of {len(texts)} texts are the same")
    for name in different[:10]:
        print(f"{name}: {texts[name]!r}, in a batch {others[name]!r}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

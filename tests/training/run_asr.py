"""Runs `asr train` as a user does: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = (  # a model and a run that take seconds
    "model.d_model=32",
    "model.heads=2",
    "model.inner=64",
    "model.layers=1",
    "model.rotary_dim=8",
    "model.dropout=0.1",
    "augment.frequency_masks=1",
    "augment.time_masks=1",
    "data.batch_seconds=8",
    "data.max_duration=7",
    "schedule.warmup=4",
    "schedule.dev_every=1000",
    "data.dev=[]",
    "tokenizer.pieces=20",
)


def command(run: Path, *options: str, settings: tuple[str, ...] = ()) -> list[str]:
    sets = [part for setting in settings for part in ("--set", setting)]
    start = [sys.executable, "-m", "asr", "train", str(CONFIGS / "tiny.yaml"), "--run", str(run)]
    return [*start, "--threads", "1", "--device", "cpu", *options, *sets]


def start(run: Path, *options: str, settings: tuple[str, ...] = ()) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(run, *options, settings=settings),
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def train(run: Path, *options: str, settings: tuple[str, ...] = ()) -> tuple[int, str]:
    """Status and standard error of a whole run."""
    process = start(run, *options, settings=settings)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def logged(run: Path) -> list[dict]:
    """The steps in the log; its last line may be half written."""
    log = run / "log.jsonl"
    lines = log.read_text("utf-8").split("\n")[:-1] if log.exists() else []
    return [entry for line in lines if "loss" in (entry := json.loads(line))]


def wait_for_step(run: Path, step: int, process: subprocess.Popen, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not any(entry["step"] >= step for entry in logged(run)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.02)

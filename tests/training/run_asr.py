"""Runs `asr train` as a user does: in a process of its own."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.cli.runner import Asr

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


def words(run: Path, *options: str, settings: tuple[str, ...] = ()) -> list[str]:
    """Of the command line, after `asr`."""
    sets = [part for setting in settings for part in ("--set", setting)]
    start = ["train", str(CONFIGS / "tiny.yaml"), "--run", str(run)]
    return [*start, "--threads", "1", "--device", "cpu", *options, *sets]


def start(run: Path, *options: str, settings: tuple[str, ...] = ()) -> Asr:
    return Asr(*words(run, *options, settings=settings))


def train(run: Path, *options: str, settings: tuple[str, ...] = ()) -> tuple[int, str]:
    """Status and standard error of a whole run."""
    process = start(run, *options, settings=settings)
    _, errors = process.communicate()
    return process.returncode, errors


def logged(run: Path) -> list[dict]:
    """The steps in the log; its last line may be half written."""
    log = run / "log.jsonl"
    lines = log.read_text("utf-8").split("\n")[:-1] if log.exists() else []
    return [entry for line in lines if "loss" in (entry := json.loads(line))]


def wait_for_step(run: Path, step: int, process: Asr, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not any(entry["step"] >= step for entry in logged(run)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.02)

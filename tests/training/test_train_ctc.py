"""scripts/train_ctc.py: the CTC branch learns, and nothing else changes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from asr.model import SpeechModel
from tests.training.run_asr import SMALL
from tests.training.small_runs import make
from tests.training.words import write_corpus

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_ctc.py"


def train_ctc(folder: Path, *settings: str, more: Sequence[object] = ()) -> subprocess.CompletedProcess[str]:
    config = folder / "ctc.yaml"
    config.write_text("data:\n  workers: 0\nchunks:\n  full_context: 0.5\n")
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, SCRIPT, config, "--run", folder / "run", "--batches", "2", *sets, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), 12)


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make(corpus, folder / "run", "schedule.warmup=1").model.save(folder / "model")
    return folder / "model"


def branch_alone(corpus: Path, start: Path) -> list[str]:
    """Settings of a short run."""
    return [
        *(s for s in SMALL if not s.startswith("model.")),
        f"data.train=[{corpus}]",
        f"start={start}",
        f"optimiser.frozen_blocks={SpeechModel.load(start).config.encoder.layers}",
        "optimiser.learning_rate=3e-3",
        "schedule.steps=60",
        "schedule.warmup=1",
    ]


def test_only_the_branch_learns_and_kept_batches_are_used_again(corpus, start, tmp_path):
    sizes = SpeechModel.load(start).config.encoder
    settings = [*branch_alone(corpus, start), f"data.dev=[{corpus}]"]
    done = train_ctc(tmp_path, *settings)
    assert done.returncode == 0, done.stderr
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert len(losses) == 60
    assert sum(losses[-6:]) < 0.8 * sum(losses[:6])
    before = SpeechModel.load(start).encoder.state_dict()
    after = SpeechModel.load(tmp_path / "run" / "model").encoder.state_dict()
    changed = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-3)}
    branch = f"blocks.{sizes.layers}."
    assert changed
    assert all(name.startswith((branch, "norm_ctc.", "ctc.")) for name in changed)
    kept = sorted((tmp_path / "run" / "kept").iterdir())
    assert len(kept) == 2
    made = [file.stat().st_mtime_ns for file in kept]
    assert train_ctc(tmp_path, *settings).returncode == 0
    assert [file.stat().st_mtime_ns for file in kept] == made


def test_noise_is_to_be_silent_about(corpus, start, tmp_path, monkeypatch):
    """Taught nothing but silence over noise, the branch is sure of the blank there."""
    done = train_ctc(tmp_path, *branch_alone(corpus, start), more=["--noise", corpus])
    assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from train_ctc import Kept

    kept = Kept(**load_file(tmp_path / "run" / "kept" / "noise-000000.safetensors"))
    assert kept.target_lengths.tolist() == [0] * len(kept.lengths)
    before, after = (float(kept.loss(SpeechModel.load(path))) for path in (start, tmp_path / "run" / "model"))
    assert after < 0.5 * before


def test_blocks_that_are_not_frozen_are_told_in_one_line(corpus, start, tmp_path):
    done = train_ctc(tmp_path, f"data.train=[{corpus}]", f"start={start}")
    assert done.returncode == 1
    assert done.stderr.startswith("train_ctc: optimiser.frozen_blocks: ")
    assert done.stderr.count("\n") == 1

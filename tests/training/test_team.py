"""Two processes of `torchrun` train one model."""

import os
import subprocess
import sys

import pytest
import torch

from asr.nn.speech_model import SpeechModel
from asr.training.team import Team
from tests.training.run_asr import SMALL, logged, train, words
from tests.training.words import write_corpus

SETTINGS = (
    *SMALL,
    "model.dropout=0",
    "schedule.warmup=1",
    "schedule.decay=constant",
    "data.max_duration=2.2",
    "data.batch_seconds=2.5",  # one utterance a batch
)


def torchrun(run, *options, settings):
    """Status and standard error of a run in two processes."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--", "asr"]
    done = subprocess.run(
        [*start, *words(run, *options, settings=settings)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Of 12 utterances, of which two cannot be read."""
    manifest = write_corpus(tmp_path_factory.mktemp("corpus"), 12)
    for name in ("03.wav", "07.wav"):
        (manifest.parent / name).write_bytes(b"no sound")
    return f"data.train=[{manifest}]"


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """One process that accumulates two batches, over the whole epoch."""
    run = tmp_path_factory.mktemp("alone") / "run"
    status, errors = train(run, settings=(*SETTINGS, corpus, "optimiser.accumulate=2", "schedule.steps=6"))
    assert status == 0, errors
    return run


@pytest.mark.slow
def test_two_processes_do_what_one_does_with_twice_the_batches_and_one_goes_on(corpus, alone, tmp_path):
    run = tmp_path / "run"
    status, errors = torchrun(run, settings=(*SETTINGS, corpus, "schedule.steps=4"))
    assert status == 0, errors
    assert "in 2 processes" in errors
    assert errors.count("utterances (") == 1
    expected, found = logged(alone), logged(run)
    assert [entry["step"] for entry in found] == [1, 2, 3, 4]
    status, errors = train(run, "--resume", settings=(*SETTINGS, corpus, "schedule.steps=6", "optimiser.accumulate=2"))
    assert status == 0, errors
    found = logged(run)
    for key in ("loss", "gradient_norm"):
        assert [e[key] for e in found] == pytest.approx([e[key] for e in expected], rel=1e-4)
    weights = SpeechModel.load(run / "model").encoder.state_dict()
    for name, weight in SpeechModel.load(alone / "model").encoder.state_dict().items():
        torch.testing.assert_close(weights[name], weight, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_all_stop_together_and_too_many_processes_are_refused(corpus, tmp_path):
    settings = (*SETTINGS, corpus, "schedule.steps=100000")
    status, errors = torchrun(tmp_path / "run", "--time-limit", "0.02", settings=settings)
    assert status == 0, errors
    assert "--resume goes on from there" in errors
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) >= 1
    status, errors = torchrun(tmp_path / "other", settings=(*settings, "data.batch_seconds=100"))
    assert status != 0
    assert "2 processes need a batch each" in errors


def test_alone_sums_are_ones_own_and_gradients_are_divided():
    team = Team()
    assert team.leads
    assert team.sum([1.0, 2.0]) == [1.0, 2.0]
    assert team.gather("a") == ["a"]
    one, other = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    one.grad = torch.full((2,), 3.0)
    team.average_gradients([one, other], 2)
    assert one.grad.tolist() == [1.5, 1.5]
    assert other.grad is None

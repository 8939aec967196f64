"""Runs of the real command that are killed, stopped, refused and taken up again."""

import json
import os
import signal

import pytest

from tests.training.run_asr import SMALL, logged, start, train, wait_for_step
from tests.training.words import write_corpus

TIMED = {"audio_per_second"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), 20)


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """A run of 40 steps that nothing has disturbed."""
    run = tmp_path_factory.mktemp("finished") / "run"
    status, errors = train(run, settings=settings(corpus))
    assert status == 0, errors
    return run


AUGMENTED = (  # all that is drawn for a batch
    "augment.speed=[0.9, 1.0, 1.1]",
    "augment.noise_probability=0.5",
    "augment.babble_probability=0.3",
    "augment.room_probability=0.3",
    "augment.telephone_probability=0.3",
    "augment.codec_probability=0.3",
    "data.weights=[1.5]",
)


def settings(corpus, *more):
    whole = ("schedule.steps=40", "schedule.checkpoint_every=10", "optimiser.accumulate=2", f"data.train=[{corpus}]")
    return (*SMALL, *AUGMENTED, *whole, *more)


def numbers(run):
    return [{key: value for key, value in entry.items() if key not in TIMED} for entry in logged(run)]


def test_a_killed_run_goes_on_with_the_same_losses(corpus, finished, tmp_path):
    process = start(tmp_path, settings=settings(corpus))
    wait_for_step(tmp_path, 15, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    status, errors = train(tmp_path, "--resume", settings=settings(corpus))
    assert status == 0, errors
    assert "going on after step" in errors
    assert [entry["step"] for entry in logged(tmp_path)] == list(range(1, 41))
    assert numbers(tmp_path) == numbers(finished)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        (os.kill, signal.SIGTERM),
        (os.killpg, signal.SIGINT),
        pytest.param(os.kill, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(os.killpg, signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(corpus, finished, tmp_path, send, number):
    """Also where it reaches the workers, as from a terminal or a scheduler."""
    process = start(tmp_path, settings=settings(corpus, "schedule.checkpoint_every=1000", "data.workers=1"))
    wait_for_step(tmp_path, 13, process)
    send(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    last = logged(tmp_path)[-1]["step"]
    assert f"stopped at step {last}" in errors
    assert "--resume goes on from there" in errors
    assert "Traceback" not in errors
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"step-{last:08d}"]
    status, errors = train(tmp_path, "--resume", settings=settings(corpus))
    assert status == 0, errors
    assert numbers(tmp_path) == numbers(finished)


def test_a_finished_run_is_refused_unless_it_is_resumed_or_restarted(corpus, finished):
    status, errors = train(finished, settings=settings(corpus))
    assert status == 2
    assert "holds a run already: --resume goes on with it, --restart deletes it" in errors
    assert errors.count("\n") == 1
    status, errors = train(finished, "--resume", settings=settings(corpus))
    assert status == 0
    assert "done after step 40" in errors


def test_another_model_cannot_be_resumed(corpus, finished):
    status, errors = train(finished, "--resume", settings=settings(corpus, "model.layers=2"))
    assert status == 2
    assert "model.layers: the run has 1, not 2" in errors


def test_a_restart_begins_again(corpus, tmp_path):
    short = settings(corpus, "schedule.steps=5")
    assert train(tmp_path, settings=short)[0] == 0
    assert train(tmp_path, "--restart", "--seed", "5", settings=short)[0] == 0
    assert [entry["step"] for entry in logged(tmp_path)] == [1, 2, 3, 4, 5]
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["seed"] == 5


def test_a_time_limit_stops_and_saves(corpus, tmp_path):
    status, errors = train(tmp_path, "--time-limit", "0.01", settings=settings(corpus, "schedule.steps=100000"))
    assert status == 0
    assert "by the time limit: --resume goes on from there" in errors
    assert list((tmp_path / "checkpoints").iterdir())


def test_a_damaged_file_is_skipped_and_named(tmp_path):
    manifest = write_corpus(tmp_path / "corpus", 6)
    (tmp_path / "corpus" / "03.wav").write_bytes(b"no sound")
    status, errors = train(tmp_path / "run", settings=settings(manifest, "schedule.steps=6"))
    assert status == 0, errors
    assert "skipped: " in errors
    assert "03.wav" in errors
    assert logged(tmp_path / "run")[-1]["step"] == 6


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("data.train=[]",), "data.train: names no manifest"),
        (("data.train=[none.jsonl]",), "none.jsonl: no such manifest"),
        (("optimiser.learning_rat=1",), "did you mean optimiser.learning_rate?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_status_2(corpus, tmp_path, more, message):
    status, errors = train(tmp_path, settings=settings(corpus, *more))
    assert status == 2
    assert message in errors
    assert errors.count("\n") == 1

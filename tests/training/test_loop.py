import errno
import math

import pytest
import torch

from asr.errors import AsrError, ManifestError
from asr.nn.speech_model import SpeechModel
from asr.training import forward
from asr.training.load_config import load_config
from asr.training.run import train
from tests.training.run_asr import CONFIGS, SMALL, logged
from tests.training.small_runs import make
from tests.training.words import write_corpus


def broken_losses(monkeypatch, *steps, value=math.nan):
    """The loss of these calls (counted from 1) is not finite; `value` 1 spoils the gradient alone."""
    real, calls = forward.weighted_losses, []

    def losses(*arguments):
        total, parts = real(*arguments)
        calls.append(total)
        if len(calls) not in steps:
            return total, parts
        if value == 1:
            total.register_hook(lambda gradient: gradient * math.inf)
            return total, parts
        return total * value, parts

    monkeypatch.setattr(forward, "weighted_losses", losses)


@pytest.mark.parametrize(("value", "what"), [(math.nan, "loss"), (math.inf, "loss"), (1, "gradient")])
def test_a_step_that_is_not_finite_is_skipped_and_named(corpus, tmp_path, monkeypatch, capsys, value, what):
    broken_losses(monkeypatch, 2, value=value)
    trainer = make(corpus, tmp_path, "schedule.steps=3", "schedule.warmup=1")
    trainer.run()
    skipped = [entry["skipped"] for entry in logged(tmp_path)]
    assert skipped[0] is None
    assert skipped[1].startswith(f"the {what} is not finite (")
    assert ".wav" in skipped[1]
    assert skipped[2] is None
    assert f"step 2 skipped: the {what} is not finite" in capsys.readouterr().err
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def test_a_run_without_finite_losses_ends_with_advice(corpus, tmp_path, monkeypatch):
    broken_losses(monkeypatch, *range(1, 100))
    with pytest.raises(AsrError, match=r"20 steps in a row: lower optimiser\.learning_rate"):
        make(corpus, tmp_path).run()


def test_audio_of_which_nothing_can_be_read_ends_the_run(tmp_path):
    manifest = write_corpus(tmp_path / "corpus", 3)
    for path in (tmp_path / "corpus").glob("*.wav"):
        path.write_bytes(b"no sound")
    with pytest.raises(ManifestError, match="none of the audio can be read"):
        make(manifest, tmp_path / "run").run()


def test_accumulated_batches_give_the_mean_of_their_gradients(corpus, tmp_path, monkeypatch):
    settings = ("model.dropout=0", "optimiser.clip=1e9", "optimiser.accumulate=2")
    trainer = make(corpus, tmp_path, *settings)
    parameters = [
        p for name, p in trainer.model.named_parameters() if "norm_memory" not in name
    ]  # CTC has no use for it
    expected = [torch.zeros_like(p) for p in parameters]
    batches = list(trainer.batches.read(0))[:2]
    for batch in batches:
        trainer.forward.backward(batch)
        for total, p in zip(expected, parameters, strict=True):
            total += p.grad / 2
            p.grad = None
    taken = []
    monkeypatch.setattr(trainer.optimiser, "step", lambda: taken.extend(p.grad.clone() for p in parameters))
    trainer._step(iter(batches))
    for one, other in zip(taken, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_full_disk_ends_the_run_with_one_line(corpus, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SpeechModel, "save", full)
    settings = [*SMALL, f"data.train=[{corpus}]", "schedule.steps=1", "schedule.warmup=1"]
    with pytest.raises(AsrError, match="the run has ended: No space left on device; go on from its last checkpoint"):
        train(load_config(CONFIGS / "tiny.yaml", settings), tmp_path, torch.device("cpu"))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]


def test_bf16_trains(corpus, tmp_path):
    make(corpus, tmp_path, "precision=bf16", "schedule.steps=2", "schedule.warmup=1").run()
    assert all(entry["skipped"] is None for entry in logged(tmp_path))


def test_a_run_that_came_to_nothing_does_not_bind_the_next(corpus, tmp_path):
    make(corpus, tmp_path, "tokenizer.pieces=16")
    trainer = make(corpus, tmp_path, "tokenizer.pieces=20", "model.layers=2")
    assert len(trainer.model.tokenizer) > 17
    assert trainer.config.model.layers == 2


def test_other_training_data_begins_the_epoch_anew(corpus, tmp_path):
    make(corpus, tmp_path, "schedule.steps=2", "schedule.warmup=1").run()
    other = write_corpus(tmp_path / "other", 9, seed=4)
    trainer = make(other, tmp_path, "schedule.steps=3", "schedule.warmup=1", resume=True)
    assert trainer.progress.batch == 0
    assert any("the training data has changed" in note for note in trainer.notes)
    assert any(note.startswith("data.train: ") for note in trainer.notes)
    trainer.run()
    assert [entry["step"] for entry in logged(tmp_path)] == [1, 2, 3]

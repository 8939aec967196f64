import errno

import pytest
import torch
from safetensors.torch import load_file

from asr.errors import AsrError, ModelError
from asr.training import checkpoint
from asr.training.checkpoint import Checkpoints, Progress, optimiser_tensors
from asr.training.config import OptimiserConfig
from asr.training.optimiser import build_optimiser


def make(steps=1, width=4):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.LayerNorm(width), torch.nn.Linear(width, 2))
    optimiser = build_optimiser(model, OptimiserConfig(), layers=1)
    for _ in range(steps):
        model(torch.randn(5, 3)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model, optimiser


def names(checkpoints):
    return [path.name for path in checkpoints.all()]


def test_model_optimiser_and_progress_come_back(tmp_path):
    model, optimiser = make(3)
    progress = Progress(7, 1, 2, 33.5, 12.0, 5, "abc")
    path = Checkpoints(tmp_path).save(model, optimiser, progress)
    other, moments = make(0)
    assert Checkpoints(tmp_path).load_newest(other, moments) == progress
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    before, after = optimiser_tensors(optimiser), optimiser_tensors(moments)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert sorted(p.suffix for p in path.iterdir()) == [".json", ".safetensors", ".safetensors"]


def test_the_newest_and_the_best_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 6):
        checkpoints.save(*make(), Progress(step, best_step=2 if step >= 2 else None))
    assert names(checkpoints) == ["step-00000002", "step-00000004", "step-00000005"]


def test_nothing_to_resume_is_none(tmp_path):
    assert Checkpoints(tmp_path / "none").load_newest(*make()) is None


def test_a_full_disk_leaves_the_last_good_one(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(*make(), Progress(1))
    real = checkpoint.save_weights

    def full(weights, path, *, durable):
        if path.name == checkpoint.OPTIMISER:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(weights, path, durable=durable)

    monkeypatch.setattr(checkpoint, "save_weights", full)
    with pytest.raises(AsrError, match=r"No space left on device; .*step-00000001 is still good"):
        checkpoints.save(*make(), Progress(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_what_a_kill_left_half_written_is_ignored_and_cleared(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(*make(), Progress(1))
    half = tmp_path / "step-00000002.partial"
    half.mkdir()
    (half / checkpoint.STATE).write_text("{")
    assert checkpoints.load_newest(*make()).step == 1
    checkpoints.save(*make(), Progress(3))
    assert not half.exists()


def test_a_damaged_newest_gives_way_to_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(*make(), Progress(step))
    (tmp_path / "step-00000002" / checkpoint.MODEL).write_bytes(b"x" * 100)
    assert checkpoints.load_newest(*make()).step == 1


def test_a_checkpoint_of_another_model_is_refused_in_one_line(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(*make(), Progress(1))
    with pytest.raises(ModelError, match="does not fit the model") as caught:
        checkpoints.load_newest(*make(width=6))
    assert "\n" not in str(caught.value)


def test_frozen_parameters_are_not_kept_and_stay_as_they_are(tmp_path):
    model, optimiser = make(0)
    model[0].requires_grad_(False)
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(model, optimiser, Progress(1))
    assert set(load_file(path / "model.safetensors")) == {"1.weight", "1.bias", "2.weight", "2.bias"}
    other, fresh = make(0)
    with torch.no_grad():
        other[0].weight.fill_(3.0)
        other[2].weight.fill_(3.0)
    checkpoints.load_newest(other, fresh)
    assert (other[0].weight == 3).all()
    assert torch.equal(other[2].weight, model[2].weight)

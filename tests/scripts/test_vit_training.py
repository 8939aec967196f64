"""The scripts that train Vision Transformers: pictures, sounds, the schedule, and a run from folder to model."""

import random
import runpy
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from asr.errors import AsrError
from asr.nn.features import LogMel
from asr.nn.gate import GATE, SpeechGate
from asr.nn.vit import VisionTransformer
from asr.nn.vit_weights import load_vit
from asr.training import classifying
from asr.training.classifying import fit
from asr.training.config import OptimiserConfig, ScheduleConfig
from asr.training.pictures import augment, digits, folder
from asr.training.sounds import Sound, speech_positions, split_noises, synthetic_noise
from scripts.recipes.train_gate import CLIP, Mixer

SCRIPTS = Path(__file__).parents[2] / "scripts" / "recipes"


def speech_like(seconds: float) -> torch.Tensor:
    """Loud for 0.8 s, then quiet for 0.4 s, and so on, over a faint background."""
    time = torch.arange(round(16000 * seconds)) / 16000
    return (torch.sin(2 * torch.pi * 300 * time) * (time % 1.2 < 0.8) * 0.1) + 1e-4 * torch.randn(len(time))


def test_fit_learns_and_keeps_the_average():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([[1.0], [-2], [3]])
    config = OptimiserConfig(0.1, weight_decay=0, ema=0.9)
    losses = fit(model, lambda step: nn.functional.mse_loss(model(x), y), config, ScheduleConfig(300, 30, floor=0))
    assert len(losses) == 300
    assert losses[-1] < 1e-2 * losses[0]
    assert nn.functional.mse_loss(model(x), y) < 1e-2 * losses[0]


def test_fit_is_done_when_its_time_is_over_and_its_rate_has_fallen_by_then():
    model, rates = nn.Linear(1, 1), []

    def loss_of(step):
        time.sleep(0.01)
        return model(torch.ones(1, 1)).square().mean()

    real = classifying.learning_rate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifying, "learning_rate", lambda *args: rates.append(real(*args)) or rates[-1])
        losses = fit(model, loss_of, OptimiserConfig(0.1), ScheduleConfig(10**6, 10**5, floor=0, time_limit=0.5 / 60))
    assert 5 < len(losses) < 60
    assert max(rates) == pytest.approx(0.1, abs=0.02)
    assert rates[-1] < 0.03


def test_digits_are_split_into_train_and_test_and_shares_lie_in_each_other():
    pytest.importorskip("sklearn")
    data = digits()
    assert (len(data.train.labels), len(data.test.labels)) == (1348, 449)
    tenth, third = data.train.share(0.1), data.train.share(0.3)
    assert set(tenth.labels.tolist()) == set(range(10))
    rows = {tuple(row) for row in third.images.flatten(1).tolist()}
    assert all(tuple(row) in rows for row in tenth.images.flatten(1).tolist())
    train = {tuple(row) for row in data.train.images.flatten(1).tolist()}
    assert not any(tuple(row) in train for row in data.test.images.flatten(1).tolist())


def test_augmentation_moves_pictures_a_little():
    torch.manual_seed(0)
    images = torch.zeros(20, 1, 16, 16)
    images[:, :, 6:10, 6:10] = 1
    moved = augment(images)
    assert (moved != images).flatten(1).any(1).all()
    assert (moved[:, :, 4:12, 4:12].sum((1, 2, 3)) > 8).all()
    torch.testing.assert_close(augment(images, degrees=0, shift=0, scale=0), images)


def test_a_run_on_image_folders_writes_a_model_and_plots(tmp_path, monkeypatch, capsys):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    draw = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            values = draw.integers(0, 100, (40, 60, 3)) + 150 * (name == "light")
            image.fromarray(values.astype(np.uint8)).save(tmp_path / "photos" / name / f"{i}.png")
    run = tmp_path / "run"
    arguments = ["train_vit.py", "--images", tmp_path / "photos", "--image", "32", "--run", run, "--steps", "3"]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments), "--batch", "4"])
    runpy.run_path(str(SCRIPTS / "train_vit.py"), run_name="__main__")
    assert "test accuracy" in capsys.readouterr().out
    model, extra = load_vit(run / "model")
    assert extra["labels"] == ["dark", "light"]
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 2)
    assert (run / "loss.png").exists()
    assert (run / "attention.png").exists()


def test_folders_without_classes_or_with_broken_images_are_told(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(AsrError, match="at least two"):
        folder(tmp_path, 32)
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(b"no image")
    with pytest.raises(AsrError, match=r"x\.png: not an image"):
        folder(tmp_path, 32)


def test_held_out_noises_are_the_last_folds_of_each_class():
    noises = [Sound(np.array([i]), text, "noise") for text in "ab" for i in range(10)]
    train, test = split_noises(noises)
    assert [n.samples[0] for n in train] == [*range(6), *range(6)]
    assert [n.samples[0] for n in test] == [6, 7, 8, 9, 6, 7, 8, 9]


def test_speech_is_where_a_clean_recording_is_loud():
    torch.manual_seed(0)
    features = LogMel().design()
    found = speech_positions(speech_like(3.6), features)
    time = torch.arange(len(found)) * 0.024
    clear = ((time % 1.2 - 0.8).abs() > 0.06) & ((time % 1.2).minimum(1.2 - time % 1.2) > 0.06)
    assert torch.equal(found[clear], (time % 1.2 < 0.8)[clear])
    assert speech_positions(0.1 * torch.randn(32000), features) is None


@pytest.mark.parametrize("seed", range(30))
def test_synthetic_noises_are_of_unit_level_or_silent(seed):
    torch.manual_seed(seed)
    noise = synthetic_noise(16000, random.Random(seed))
    assert noise.shape == (16000,)
    assert float(noise.square().mean()) == pytest.approx(1, abs=1e-3) or not noise.any()


def test_clips_of_the_gate_say_where_their_speech_is():
    noise = (3000 * np.random.default_rng(0).standard_normal(80000)).astype(np.int16)
    speech = (speech_like(5.0) * 32767).numpy().astype(np.int16)
    mixer = Mixer([Sound(speech, "", "x")], [Sound(noise, "", "noise")])
    clips = [mixer.clip() for _ in range(30)]
    assert {len(wave) for wave, _ in clips} == {CLIP}
    assert all(wave.abs().max() <= 1 and torch.isfinite(wave).all() for wave, _ in clips)
    assert any(marks.any() for _, marks in clips)
    assert any(not marks.any() for _, marks in clips)
    windows, marks = mixer.batch(4, 3, SpeechGate(VisionTransformer(GATE)))
    assert windows.shape == (12, 120, 80)
    assert marks.shape == (12, 12)

"""scripts/recipes/average_models.py: weights between those of two models, decoder and tokenizers of the first."""

import subprocess
import sys
from pathlib import Path

import torch

from asr.nn.speech_model import SpeechModel
from tests.small import small_reader

SCRIPT = Path(__file__).parents[2] / "scripts" / "recipes" / "average_models.py"


def average(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def test_weights_lie_where_the_share_says(tmp_path):
    for seed in (1, 2):
        small_reader(seed).save(tmp_path / str(seed))
    done = average(tmp_path / "1", tmp_path / "2", tmp_path / "out", "--share", "0.75", "--about", "both")
    assert done.returncode == 0, done.stderr
    one, two, out = (SpeechModel.load(tmp_path / name) for name in ("1", "2", "out"))
    assert out.config.about == "both"
    for name, weight in out.encoder.state_dict().items():
        expected = 0.75 * one.encoder.state_dict()[name] + 0.25 * two.encoder.state_dict()[name]
        torch.testing.assert_close(weight, expected, atol=2e-3, rtol=2e-3)
    for name, weight in out.decoder.state_dict().items():
        expected = 0.75 * one.decoder.state_dict()[name] + 0.25 * two.decoder.state_dict()[name]
        torch.testing.assert_close(weight, expected, atol=2e-2, rtol=2e-2)


def test_a_model_that_is_not_there_is_told_in_one_line(tmp_path):
    done = average(tmp_path / "none", "en", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("average_models: ")
    assert done.stderr.count("\n") == 1

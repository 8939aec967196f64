"""The whole model from samples to log-probabilities; saving and loading."""

import subprocess
import sys

import pytest
import torch

from asr.errors import ModelError
from asr.nn.speech_model import SpeechModel
from tests.small import noise, small_model

MODEL = small_model()


def test_the_followed_level_makes_quiet_and_loud_speech_alike():
    x = noise(1, 64000, torch.Generator().manual_seed(5))
    loud, quiet = (MODEL(sound, final=True)[0].log_probs for sound in (x, x * 0.02))
    torch.testing.assert_close(quiet, loud, atol=5e-2, rtol=0)


def test_bad_sizes_are_refused():
    for wrong in ({"chunk": 0}, {"look_ahead": -1}):
        with pytest.raises(ValueError, match="must be at least"):
            MODEL.start(**wrong)


@pytest.mark.parametrize("int8", [False, True])
def test_a_saved_model_is_the_same_model(tmp_path, int8):
    MODEL.save(tmp_path, int8=int8)
    loaded = SpeechModel.load(tmp_path)
    assert loaded.config == MODEL.config
    assert loaded.tokenizer.encode("abba") == MODEL.tokenizer.encode("abba")
    x = noise(1, 8000, torch.Generator().manual_seed(6))
    expected, got = (m(x, m.start(gain=1.0), final=True)[0].log_probs for m in (MODEL, loaded))
    torch.testing.assert_close(got, expected, atol=0.3 if int8 else 1e-5, rtol=0)


def test_a_model_that_is_not_there_is_told_with_those_that_are(tmp_path):
    with pytest.raises(ModelError, match=r"no model nowhere.*en"):
        SpeechModel.load("nowhere")
    with pytest.raises(ModelError, match="holds no model"):
        SpeechModel.load(tmp_path)


def test_loading_does_not_import_a_compiler():
    """It would take as long as all the rest of loading, or longer."""
    code = "import sys; from asr import Recognizer; Recognizer.load().gate; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

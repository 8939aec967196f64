"""Settings and small models that many tests share. No test needs a file from outside the repository."""

import pytest
import torch
from hypothesis import settings

from asr.nn.speech_model import SpeechModel

settings.register_profile("asr", deadline=None, max_examples=40)
settings.load_profile("asr")


@pytest.fixture(scope="session", autouse=True)
def _threads():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def english() -> SpeechModel:
    """The built-in model."""
    return SpeechModel.load("en")

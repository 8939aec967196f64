"""Whatever a program hands over that cannot be, one error says so: none but `AsrError`, and nothing hangs."""

import io
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from asr.errors import AsrError, AudioError, ConfigError
from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import EndpointRules
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from tests.recordings import RATE, speech_like
from tests.small import small_model, small_reader

NO_NAMES = [None, 3, 3.5, True, b"en", [], {}, "", "no-such-model", "a\0b", "x" * 5000, "/dev/null", object()]
NO_DEVICES = ["gpu", "cuda:99", "meta", "", 99, [], "cpu:x"]
NO_THREADS = [0, -1, 1.5, "2", True, 10**9, []]
NO_AMOUNTS = [None, "x", -1, math.nan, True, [], 1j]
NO_OPTIONS = {
    "chunk_ms": [*NO_AMOUNTS, math.inf],
    "look_ahead_ms": [*NO_AMOUNTS, math.inf],
    "second_pass": [None, "off", 3, []],
    "vad": [None, "off", 3, []],
    "partials": [None, "bogus", True, 1, []],
    "hotwords": [1, None, "Titicaca", [1], [""]],
    "endpoint": [1, "x", True, [], StreamOptions()],
}
NO_SOUND = [
    *[3, None, "", b"", "x\0y", object(), [[None]], iter([None]), {1: 2}, io.StringIO("x"), io.BytesIO(b"")],
    *[io.BytesIO(b"x"), Path(), np.array([1j]), np.array(["a"]), np.zeros((3, 3, 3)), np.zeros((5, 0)), np.float32(3)],
    *[np.zeros(4, "m8[s]"), np.zeros(9, [("a", "f4")]), torch.zeros(3, dtype=torch.complex64)],
    *[torch.zeros(5, device="meta"), torch.zeros(9).to_sparse(), torch.zeros(2, 2, 2)],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_reader().save(folder)
    return folder


def refused(error: type[AsrError], call: Callable, *arguments, **named) -> None:
    """The call ends in that error, in one line."""
    __tracebackhide__ = True
    with pytest.raises(error) as told:
        call(*arguments, **named)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) > 10


def test_models_devices_and_threads(folder):
    for wrong in NO_NAMES:
        refused(AsrError, Recognizer.load, wrong)
        refused(AsrError, SpeechModel.load, wrong)
    for wrong in NO_DEVICES:
        refused(AsrError, Recognizer.load, folder, device=wrong)
        refused(AsrError, SpeechModel.load, folder, wrong)
    for wrong in NO_THREADS:
        refused(ConfigError, Recognizer.load, folder, threads=wrong)


def test_options():
    for name, values in NO_OPTIONS.items():
        for wrong in values:
            refused(ConfigError, StreamOptions, **{name: wrong})
    for name in vars(EndpointRules()):
        for wrong in [*NO_AMOUNTS, 0]:
            refused(ConfigError, EndpointRules, **{name: wrong})
    recognizer, samples = Recognizer(small_model()), speech_like(1, 1)
    for wrong in (None, 3, "x", {}, StreamOptions, EndpointRules()):
        refused(ConfigError, recognizer.stream, wrong)
        for entrance in (recognizer.transcribe, recognizer.utterances):
            refused(ConfigError, entrance, samples, wrong)
        refused(ConfigError, recognizer.transcribe_batch, [samples], wrong)


def test_sound():
    recognizer = Recognizer(small_model())
    for wrong in NO_SOUND:
        refused(AudioError, recognizer.transcribe, wrong)
        refused(AudioError, recognizer.transcribe_batch, [wrong])
        refused(AudioError, recognizer.stream().accept, wrong, RATE)


def test_rates():
    recognizer, samples = Recognizer(small_model()), speech_like(1, 1)
    for wrong in ("16000", True, [RATE], 1j, {}, b"", torch.tensor(RATE), np.array([RATE, RATE])):
        refused(AudioError, recognizer.transcribe, samples, rate=wrong)
        refused(AudioError, recognizer.stream().accept, samples, wrong)

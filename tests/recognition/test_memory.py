"""A stream keeps no more after minutes than after one utterance of the greatest length, whatever it is asked for."""

import numpy as np
import pytest

from asr.audio.files import read_audio
from asr.recognition.recognizer import Recognizer, StreamOptions
from tests.recordings import RATE, SAMPLE
from tests.small import small_reader
from tests.streaming_contract import kept_bytes

MINUTES = 4


@pytest.mark.parametrize("second_pass", [True, False])
@pytest.mark.parametrize("partials", ["decoder", "ctc", "off"])
@pytest.mark.parametrize("vad", [True, False])
def test_memory_of_a_stream_does_not_grow(partials, vad, second_pass):
    """Speech without a pause, so that utterances are cut at their greatest length, and a minute of silence."""
    recognizer, g = Recognizer(small_reader()), np.random.default_rng(0)
    stream = recognizer.stream(StreamOptions(partials=partials, vad=vad, second_pass=second_pass))
    speech = np.tile(read_audio(SAMPLE)[: 4 * RATE], 15 * MINUTES).reshape(-1, RATE)
    speech[-100:-40] = 1e-5 * g.standard_normal((60, RATE))
    kept = []
    for second in speech:
        stream.accept(second, RATE)
        kept.append(kept_bytes(stream, besides=(recognizer.model, recognizer.gate)))
    half = len(kept) // 2
    assert max(kept[half:]) <= 1.05 * max(kept[:half])

"""A stream keeps no more after many utterances than after one, whatever it is asked for."""

import numpy as np
import pytest

from asr.audio.files import read_audio
from asr.events import Endpoint
from asr.recognition.endpoint import EndpointRules
from asr.recognition.recognizer import Recognizer, StreamOptions
from tests.recordings import RATE, SAMPLE
from tests.small import small_reader
from tests.streaming_contract import kept_bytes

LONGEST = 3  # seconds of the longest utterance
UTTERANCES = 5


@pytest.mark.parametrize(
    ("partials", "vad", "second_pass"),
    [("decoder", True, True), ("decoder", False, False), ("ctc", True, False), ("off", False, True)],
)
def test_memory_of_a_stream_does_not_grow(partials, vad, second_pass):
    """Speech without a pause, so that utterances are cut at their greatest length; in the silences after the first
    utterance and after the last one, as little is kept."""
    recognizer, rules = Recognizer(small_reader()), EndpointRules(longest=LONGEST)
    stream = recognizer.stream(StreamOptions(partials=partials, vad=vad, second_pass=second_pass, endpoint=rules))
    speech = read_audio(SAMPLE)[: LONGEST * RATE]
    silence = 1e-5 * np.random.default_rng(0).standard_normal(LONGEST * RATE)
    shared = (recognizer.model, recognizer.gate) if vad else recognizer.model
    kept, ends = [], 0
    for second in np.concatenate([speech, silence, *[speech] * UTTERANCES, silence]).reshape(-1, RATE):
        ends += sum(isinstance(event, Endpoint) for event in stream.accept(second, RATE))
        kept.append(kept_bytes(stream, besides=shared))
    assert ends >= UTTERANCES
    assert min(kept[-LONGEST:]) <= 1.12 * min(kept[LONGEST : 2 * LONGEST])

"""A stream keeps no more after many utterances than after two of the greatest length, whatever it is asked for."""

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
UTTERANCES = 6


@pytest.mark.parametrize(
    ("partials", "vad", "second_pass"),
    [("decoder", True, True), ("decoder", False, False), ("ctc", True, False), ("off", False, True)],
)
def test_memory_of_a_stream_does_not_grow(partials, vad, second_pass):
    """Speech without a pause, so that utterances are cut at their greatest length, and then silence."""
    recognizer, g = Recognizer(small_reader()), np.random.default_rng(0)
    rules = EndpointRules(longest=LONGEST)
    stream = recognizer.stream(StreamOptions(partials=partials, vad=vad, second_pass=second_pass, endpoint=rules))
    speech = np.tile(read_audio(SAMPLE)[: LONGEST * RATE], UTTERANCES).reshape(-1, RATE)
    silence = 1e-5 * g.standard_normal((LONGEST, RATE))
    shared = (recognizer.model, recognizer.gate) if vad else recognizer.model
    kept, ends = [], 0
    for second in [*speech, *silence]:
        ends += sum(isinstance(event, Endpoint) for event in stream.accept(second, RATE))
        kept.append(kept_bytes(stream, besides=shared))
    assert ends >= UTTERANCES - 1
    early = 3 * LONGEST
    assert max(kept[early:]) <= 1.25 * max(kept[:early])  # what a cut leaves to the next utterance varies

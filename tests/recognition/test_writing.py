"""Words as they are wanted come out of streams and out of recordings that are read together alike."""

import numpy as np
import pytest

from asr.events import Endpoint, Final, Partial
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.recognition.together import decode_together
from asr.recognition.transcript import Transcript
from asr.writing.rewriting import Writing, rewrite
from tests.recordings import RATE, check_equal, speech_like
from tests.small import small_reader

WRITINGS = [
    Writing(plain=True, replacements=["g => 7"]),
    Writing("digits", spoken_punctuation=True, replacements=[r"dg (dg) => \1-X Y\n", r"Y\s+dg => z", "p+ => "]),
]


@pytest.fixture(scope="module")
def recognizer():
    return Recognizer(small_reader(2))


@pytest.fixture(scope="module")
def samples():
    return np.concatenate([speech_like(seed, 2) for seed in (1, 2)])


@pytest.mark.parametrize("writing", WRITINGS)
def test_finals_are_those_that_are_heard_rewritten(recognizer, samples, writing):
    def events(written: Writing) -> list:
        stream = recognizer.stream(StreamOptions(beams=1, writing=written))
        return stream.accept(samples, RATE) + stream.finish()

    heard, written = events(Writing()), events(writing)
    assert written == rewrite(writing, heard)
    assert [e.text for e in written if isinstance(e, Final)] != [e.text for e in heard if isinstance(e, Final)]
    gate = recognizer.gate_of(StreamOptions(beams=1))
    (together,) = decode_together(recognizer.model, gate, [samples], StreamOptions(beams=1, writing=writing))
    check_equal(together, written, word_times=False)


@pytest.mark.parametrize("writing", WRITINGS)
def test_partials_are_written_too_and_what_is_stable_stays(recognizer, samples, writing):
    stream, stable, seen = recognizer.stream(StreamOptions(beams=1, partials="decoder", writing=writing)), "", 0
    events = [event for block in np.array_split(samples, 60) for event in stream.accept(block, RATE)] + stream.finish()
    for event in events:
        if isinstance(event, Partial):
            assert event.text.startswith(event.stable)
            assert event.stable.startswith(stable)
            stable, seen = event.stable, seen + 1
        elif isinstance(event, Endpoint):
            stable = ""
    assert seen > 3


def test_a_transcript_joins_utterances_as_their_marks_want_it():
    said = "Dear Anna", ",\n", "how are you?", "Bye"
    assert Transcript(tuple(Final(text, 0.0, 1.0) for text in said)).text == "Dear Anna,\nhow are you? Bye"

"""Nothing is encoded twice in a recording, and nothing at all in silence; no word is lost by it."""

import numpy as np
import pytest

from asr.audio.files import read_audio
from asr.evaluation.wer import error_rate
from asr.events import Final, Partial
from asr.recognition.options import RECORDED, StreamOptions
from asr.recognition.recognizer import Recognizer
from tests.recordings import RATE, SAMPLE, TEXTS

LIVE = StreamOptions(partials="decoder", vad=True)


@pytest.fixture(scope="module")
def samples():
    return read_audio(SAMPLE)


@pytest.fixture
def encoded(english):
    """Positions that go through the encoder's first block, one number a pass."""
    sizes = []
    hook = english.encoder.blocks[0].register_forward_hook(lambda block, args, output: sizes.append(args[0].shape[1]))
    yield sizes
    hook.remove()


def room(seconds: float, level: float, seed: int = 0) -> np.ndarray:
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def hear(recognizer, samples, options=LIVE):
    stream = recognizer.stream(options)
    return [e for block in np.array_split(samples, 40) for e in stream.accept(block, RATE)] + stream.finish()


def test_a_recording_is_encoded_once(english, samples, encoded):
    finals = Recognizer(english).utterances(samples, RECORDED)
    spoken = sum(final.end - final.start for final in finals)
    assert sum(encoded) == pytest.approx(spoken / english.position_seconds, abs=12)  # and the tail


@pytest.mark.parametrize("level", [0, 1e-4, 0.003])
def test_nothing_is_encoded_while_nobody_speaks(english, encoded, level):
    recognizer = Recognizer(english)
    hear(recognizer, room(3, level), LIVE)
    encoded.clear()
    hear(recognizer, room(20, level), LIVE)
    assert encoded == []


@pytest.mark.parametrize("gain", [1.0, 0.03, 0.003])
@pytest.mark.parametrize("pause", [0.7, 4.0, 4.1, 4.2])
def test_words_that_begin_in_silence_are_heard_whole(english, samples, gain, pause):
    """Wherever in a chunk they begin, loud or quiet."""
    said = gain * samples[: int(4.6 * RATE)]
    events = hear(Recognizer(english), np.concatenate([room(pause, 1e-6), said, room(2, 1e-6)]))
    (final,) = [e for e in events if isinstance(e, Final)]
    last = [e for e in events if isinstance(e, Partial)][-1]
    assert error_rate(TEXTS[0], final.text.replace("recognizer", "recogniser")).wer == 0
    assert error_rate(TEXTS[0], last.text.replace("recognizer", "recogniser")).wer < 20
    assert last.text.startswith("Good morning")


def test_the_encoder_begins_anew_with_each_utterance_and_partials_stay(english, samples):
    """After a long silence partials are as if nothing had been before it, and times go on."""
    recognizer, said = Recognizer(english), samples[: int(4.6 * RATE)]
    first = [e for e in hear(recognizer, np.concatenate([said, room(2, 0)])) if isinstance(e, Final)]
    both = [e for e in hear(recognizer, np.concatenate([said, room(8, 0), said, room(2, 0)])) if isinstance(e, Final)]
    assert [final.text for final in both] == [first[0].text] * 2
    assert both[1].start - both[0].start == pytest.approx(len(said) / RATE + 8, abs=0.35)

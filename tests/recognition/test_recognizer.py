"""The recogniser on real (synthesised) speech: events, times, and that the way of feeding does not matter."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.files import read_audio
from asr.errors import ModelError
from asr.evaluation.english import spoken_form
from asr.evaluation.wer import error_rate
from asr.events import Endpoint, Final, Partial, as_dict
from asr.recognition.endpoint import EndpointRules
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.recognition.stream import ROOM_AGAIN, TOO_SLOW
from tests.recordings import SAMPLE, TEXTS
from tests.small import small_model


@pytest.fixture(scope="module")
def recognizer():
    return Recognizer.load()


@pytest.fixture(scope="module")
def samples():
    return read_audio(SAMPLE)


@pytest.fixture(scope="module")
def finals(recognizer, samples):
    return list(recognizer.transcribe(samples))


def test_the_words_of_the_sample_are_recognised(finals):
    assert len(finals) == len(TEXTS)
    for final, text in zip(finals, TEXTS, strict=True):
        assert error_rate(text, final.text).wer == 0, final.text


def test_times_are_those_of_the_recording(finals, samples):
    assert finals[0].start >= 0
    assert finals[-1].end <= len(samples) / 16000
    for before, after in itertools.pairwise(finals):
        assert before.end <= after.start
    for final in finals:
        assert " ".join(word.text for word in final.words) == final.text
        times = [t for word in final.words for t in (word.start, word.end)]
        assert times == sorted(times)
        assert final.start <= times[0]
        assert times[-1] <= final.end
        assert all(0 <= word.confidence <= 1 for word in final.words)
    loud = np.abs(samples).reshape(-1, 5)[:, 0]
    for final in finals:  # a word's middle lies in sound, not in the pauses between the sentences
        for word in final.words:
            at = int((word.start + word.end) / 2 * 3200)
            assert loud[max(0, at - 640) : at + 640].max() > 0.01


def test_all_ways_of_feeding_give_the_same_events(recognizer, samples):
    short = samples[: 16000 * 6]
    whole = recognizer.stream()
    expected = whole.accept(short, 16000) + whole.finish()
    for size in (1000, 7777):
        stream, events = recognizer.stream(), []
        for start in range(0, len(short), size):
            events += stream.accept(short[start : start + size], 16000)
        events += stream.finish()
        assert [e.text for e in events if isinstance(e, Final)] == [e.text for e in expected if isinstance(e, Final)]
        assert [e.time for e in events if isinstance(e, Endpoint)] == [
            e.time for e in expected if isinstance(e, Endpoint)
        ]


@settings(max_examples=15)
@given(st.integers(0, 99), st.lists(st.integers(1, 30000), max_size=8), st.sampled_from([0, 320]), st.booleans())
def test_the_size_of_blocks_does_not_move_endpoints(seed, cuts, look_ahead, vad):
    model = small_model()
    model.encoder.ctc.bias[0] += 50  # nothing is heard: loudness alone tells where utterances are
    random = np.random.default_rng(seed)
    levels = np.repeat(10 ** random.uniform(-4, -0.5, 24), 8000)  # half a second each, from a whisper to a shout
    sound = (levels * random.standard_normal(len(levels))).astype(np.float32)
    rules = EndpointRules(pause=0.4)
    options = StreamOptions(320, look_ahead, second_pass=False, endpoint=rules, vad=vad)
    whole, cut = (
        [e for block in blocks for e in stream.accept(block, 16000)] + stream.finish()
        for blocks in ([sound], np.split(sound, np.minimum(np.cumsum(cuts), len(sound))))
        for stream in [Recognizer(model).stream(options)]
    )
    assert whole == cut


def test_the_gate_keeps_speech(recognizer, samples):
    assert recognizer.transcribe(samples, StreamOptions(vad=True)).text == recognizer.transcribe(samples).text


def test_noise_does_not_hold_an_utterance_open_behind_the_gate(recognizer, samples):
    """As loud as the speech before it."""
    noise = 0.05 * np.random.default_rng(0).standard_normal(16000 * 6).astype(np.float32)
    sound, ends = np.concatenate([samples[: 16000 * 9 // 2], noise]), {}
    for vad in (False, True):
        stream = recognizer.stream(StreamOptions(640, 0, second_pass=False, vad=vad))
        events = stream.accept(sound, 16000) + stream.finish()
        ends[vad] = next(event.time for event in events if isinstance(event, Endpoint))
    assert ends[True] < 6.5 < 9 < ends[False]


def test_other_rates_channels_and_levels_are_heard_alike(recognizer, samples):
    import soxr

    at_44100 = soxr.resample(samples[: 16000 * 5], 16000, 44100)
    stereo = np.stack([at_44100, at_44100], 1) * 0.02
    stream = recognizer.stream()
    events = [e for block in np.array_split(stereo, 50) for e in stream.accept(block, 44100)] + stream.finish()
    heard = " ".join(e.text for e in events if isinstance(e, Final))
    assert error_rate(TEXTS[0], heard).wer == 0
    other = recognizer.stream()
    other.accept(stereo, 44100)
    with pytest.raises(ValueError, match="44100"):
        other.accept(stereo, 48000)


def test_one_utterance_mode_is_one_final(recognizer, samples):
    (final,) = recognizer.transcribe(samples, StreamOptions(endpoint=None))
    assert final.start == 0
    assert final.end == pytest.approx(len(samples) / 16000, abs=0.03)
    assert error_rate(" ".join(TEXTS), final.text).wer == 0


def test_without_second_pass_finals_are_ctc(recognizer, samples):
    finals = list(recognizer.transcribe(samples, StreamOptions(second_pass=False)))
    assert finals
    assert all(final.text == final.text.lower() for final in finals)


@pytest.mark.parametrize("size", [0, 1, 160, 399, 4000])
def test_next_to_nothing_is_no_error(recognizer, size):
    stream = recognizer.stream()
    events = stream.accept(np.full(size, 0.1, np.float32), 16000) + stream.finish()
    assert not [e for e in events if isinstance(e, Final)]
    assert stream.finish() == []
    assert stream.seconds == pytest.approx(size / 16000)
    with pytest.raises(ValueError, match="finished"):
        stream.accept(np.zeros(10, np.float32), 16000)


def test_a_word_said_twice_across_an_endpoint_comes_out_twice(recognizer, samples):
    """The last word of one utterance and the first of the next are the same recording of the same word."""
    first = samples[: int(16000 * 4.7)]
    twice = np.concatenate([first, np.zeros(16000 * 2, np.float32), first])
    finals = list(recognizer.transcribe(twice))
    assert len(finals) == 2
    texts = [final.text.replace("recognizer", "recogniser") for final in finals]  # both are English
    assert [error_rate(TEXTS[0], text).wer for text in texts] == [0, 0]


def test_tiny_changes_change_no_word(recognizer, samples):
    """Of a sentence that is said twice without a pause, whose two halves a decoder can confuse."""
    twice, random = np.tile(samples[: int(16000 * 4.7)], 2), np.random.default_rng(0)
    gone = twice.copy()
    gone[30000] = 0
    dither = twice + (10 ** (-90 / 20) * random.standard_normal(len(twice))).astype(np.float32)
    for transcript in recognizer.transcribe_batch([twice, gone, 1.001 * twice[5:], dither]):
        assert spoken_form(transcript.text) == spoken_form(f"{TEXTS[0]} {TEXTS[0]}")


def test_streams_share_a_model_and_do_not_mix(recognizer, samples):
    one, two = recognizer.stream(), recognizer.stream()
    parts = np.array_split(samples[: 16000 * 5], 10)
    events = []
    for part in parts:
        events += one.accept(part, 16000)
        two.accept(np.zeros_like(part), 16000)
    events += one.finish()
    assert two.finish() == []
    assert error_rate(TEXTS[0], " ".join(e.text for e in events if isinstance(e, Final))).wer == 0


def test_a_stream_that_cannot_keep_up_goes_on_with_ctc_and_says_so_once(recognizer, samples, finals):
    told = []
    stream = recognizer.stream(StreamOptions(640, 0, partials="auto"), told.append)
    stream._pace.most_behind = np.inf  # however slow the machine is that tests
    begin = stream.accept(samples[: 16000 * 3], 16000)
    assert told == []
    stream._pace.most_behind = -1.0
    begin += stream.accept(samples[:0], 16000)
    events = begin + [e for part in np.array_split(samples[16000 * 3 :], 20) for e in stream.accept(part, 16000)]
    events += stream.finish()
    assert told == [TOO_SLOW]
    stable, seen = "", 0
    for event in events:
        if isinstance(event, Partial):
            assert event.stable.startswith(stable)
            assert event.text.startswith(event.stable)
            stable, seen = event.stable, seen + 1
        elif isinstance(event, Endpoint):
            stable = ""
    assert seen > 10
    decoded = next(e for e in reversed(begin) if isinstance(e, Partial)).text
    ctc = next(e for e in events[len(begin) :] if isinstance(e, Partial)).text
    assert ctc.startswith(decoded)
    last = [e.text for e in events if isinstance(e, Partial)][-1]
    assert last == last.lower(), "greedy CTC writes no capitals"
    assert [e.text for e in events if isinstance(e, Final)] == [final.text for final in finals]


def test_in_a_hurry_there_are_finals_and_no_more_partials(recognizer, samples, finals):
    stream = recognizer.stream(StreamOptions(640, 0, partials="decoder"))
    events = stream.accept(samples[: 16000 * 3], 16000)
    assert any(isinstance(e, Partial) for e in events)
    stream.hurry()
    rest = stream.accept(samples[16000 * 3 :], 16000) + stream.finish()
    assert not any(isinstance(e, Partial) for e in rest)
    assert [e.text for e in rest if isinstance(e, Final)] == [final.text for final in finals]


def test_with_room_again_the_next_utterance_is_the_decoders(recognizer, samples):
    told = []
    stream = recognizer.stream(StreamOptions(640, 0, partials="auto"), told.append)
    stream._pace.most_behind = -1.0
    events = stream.accept(samples[: 16000 * 3], 16000)
    stream._pace.most_behind, stream._pace.patience = np.inf, 0.0
    while stream._pace.easy:  # however slow the machine is that tests
        events += stream.accept(np.zeros(16000), 16000)
    assert told == [TOO_SLOW, ROOM_AGAIN]
    stream.accept(np.zeros(16000 * 2), 16000)  # the open utterance ends
    again = [e for part in np.array_split(samples[: 16000 * 3], 6) for e in stream.accept(part, 16000)]
    assert [e.text for e in again if isinstance(e, Partial)][-1][0].isupper()


def test_events_as_plain_json_values(finals):
    values = as_dict(finals[0])
    assert values["type"] == "final"
    assert set(values) == {"type", "text", "start", "end", "words"}
    assert set(values["words"][0]) == {"text", "start", "end", "confidence"}
    assert as_dict(Endpoint(1.23456, "pause")) == {"type": "endpoint", "time": 1.235, "reason": "pause"}


def test_a_missing_model_is_told_in_one_line():
    with pytest.raises(ModelError, match="no model"):
        Recognizer.load("no-such-model")


def test_no_gradients_are_kept(recognizer, samples):
    stream = recognizer.stream()
    stream.accept(samples[:16000], 16000)
    assert not stream._segmenter._segments.log_probs(0).requires_grad
    assert not torch.is_grad_enabled() or all(not p.requires_grad for p in recognizer.model.parameters())

"""The second pass reads half a minute at a time at most, and nothing that breaks off in the middle of speech."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.files import read_audio
from asr.evaluation.wer import error_rate
from asr.nn.gate import SILENCE
from asr.recognition.endpoint import Segment
from asr.recognition.options import RECORDED
from asr.recognition.parts import ENDING, LONGEST, readable_parts, with_ending
from asr.recognition.recognizer import Recognizer
from asr.recognition.segments import Utterance
from tests.recordings import SAMPLE, TEXTS
from tests.small import small_model


def utterance(seed: int, positions: int, reason: str = "end") -> Utterance:
    g = torch.Generator().manual_seed(seed)
    frames = torch.rand(3 * positions, 80, generator=g) * 4 - 6
    log_probs = torch.randn(positions, 9, generator=g).log_softmax(-1)
    heard, speech = torch.rand(2, positions, generator=g)
    return Utterance(Segment(100, 100 + positions, reason), frames, log_probs, heard > 0.5, 3 * positions, speech)


@settings(max_examples=10)
@given(st.integers(0, 99), st.integers(1, 6000))
def test_parts_follow_each_other_and_are_short_enough(seed, positions):
    model, whole = small_model(0), utterance(seed, positions)
    parts = list(readable_parts(model, whole))
    edges = [parts[0].segment.start, *(part.segment.end for part in parts)]
    assert edges == sorted(set(edges))
    assert (edges[0], edges[-1]) == (100, 100 + positions)
    sizes = [end - start for start, end in itertools.pairwise(edges)]
    assert all(size * model.position_seconds <= LONGEST for size in sizes)
    assert [part.segment.reason for part in parts] == ["length"] * (len(parts) - 1) + ["end"]
    own = [part.log_power[: 3 * size] for part, size in zip(parts, sizes, strict=True)]
    assert torch.cat(own).equal(whole.log_power)


def test_a_cut_is_made_in_a_pause():
    model, whole = small_model(0), utterance(1, 2000)
    whole.log_power[3 * 900 : 3 * 930] = SILENCE
    whole.heard[:] = False
    first, _ = readable_parts(model, whole)
    assert 100 + 900 < first.segment.end < 100 + 930


@pytest.mark.parametrize(("reason", "more"), [("length", ENDING), ("pause", 0), ("end", 0)])
def test_what_was_cut_in_the_middle_of_speech_has_an_ending(reason, more):
    whole = utterance(0, 40, reason)
    ended = with_ending(whole)
    assert ended.positions == 40 + more
    assert (ended.log_power[120:] == SILENCE).all()


def test_a_minute_in_one_utterance_is_read_as_it_was_said(english):
    """Without endpoints, and three times the sample without its pauses."""
    samples = read_audio(SAMPLE)
    sound = np.concatenate([samples[: 16000 * 9 // 2], samples[16000 * 6 : 16000 * 11]] * 4)
    (final,) = Recognizer(english).transcribe(sound, replace(RECORDED, endpoint=None))
    assert error_rate(" ".join(TEXTS[:2] * 4), final.text).wer < 10
    assert final.words[-1].end > 30

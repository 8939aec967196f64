"""The streaming resampler against the one-shot one."""

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.resample import StreamResampler
from asr.errors import AudioError

NOISE = np.random.default_rng(0).standard_normal(12000).astype(np.float32) * 0.1


@settings(max_examples=40, deadline=None)
@given(
    source=st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 96000]),
    target=st.sampled_from([8000, 16000, 24000]),
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=12),
)
def test_pieces_equal_the_whole(source: int, target: int, sizes: list[int]):
    resampler = StreamResampler(source, target)
    pieces = np.split(NOISE, np.cumsum(sizes).clip(0, len(NOISE)))
    out = [resampler(piece) for piece in pieces[:-1]] + [resampler(pieces[-1], last=True)]
    whole = soxr.resample(NOISE, source, target, quality="HQ")
    joined = np.concatenate(out)
    assert joined.dtype == np.float32
    assert abs(len(joined) - len(NOISE) * target / source) <= 1
    np.testing.assert_allclose(joined, whole, atol=1e-4)


def test_equal_rates_change_nothing():
    resampler = StreamResampler(16000, 16000)
    np.testing.assert_array_equal(resampler(NOISE, last=True), NOISE)


def test_nothing_in_nothing_out():
    resampler = StreamResampler(44100, 16000)
    assert resampler(np.empty(0, np.float32), last=True).shape == (0,)


def test_a_tone_keeps_pitch_and_level():
    tone = np.sin(2 * np.pi * 440 * np.arange(48000) / 48000)
    out = StreamResampler(48000, 16000)(tone, last=True)
    np.testing.assert_allclose(out[1000:-1000], tone[::3][1000:-1000], atol=1e-3)


@pytest.mark.parametrize("rates", [(0, 16000), (16000, -1)])
def test_impossible_rates(rates: tuple[int, int]):
    with pytest.raises(AudioError, match="sample rate"):
        StreamResampler(*rates)

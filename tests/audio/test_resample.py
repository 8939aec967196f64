"""The resampler on one signal."""

import numpy as np
import pytest

from asr.audio.resample import StreamResampler

NOISE = np.random.default_rng(0).standard_normal(12000).astype(np.float32) * 0.1


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
    with pytest.raises(ValueError, match="must be positive"):
        StreamResampler(*rates)

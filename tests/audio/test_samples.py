"""The entrance for samples: what they may be, and what becomes of those that are wrong."""

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from asr.audio.samples import Intake, as_array, check_rate
from asr.errors import AudioError
from tests.audio.makers import chirp

RATE = 16000
SOUND = chirp(0.5, RATE)
OTHER = chirp(0.5, RATE, start=3.0)


def taken(sound, blocks: int = 1) -> tuple[np.ndarray, list[str]]:
    """What comes out of an array in so many blocks, and what was said."""
    told: list[str] = []
    intake = Intake(RATE, told.append)
    return np.concatenate([intake(block) for block in np.array_split(sound, blocks)]), told


FORMS = {
    "float32": SOUND,
    "float64": SOUND.astype(np.float64),
    "float16": SOUND.astype(np.float16),
    "big endian": SOUND.astype(">f4"),
    "int8": np.rint(SOUND * 2**7).astype(np.int8),
    "uint8": np.rint(SOUND * 2**7 + 2**7).astype(np.uint8),
    "int16": np.rint(SOUND * 2**15).astype(np.int16),
    "int32": np.rint(SOUND.astype(np.float64) * 2**31).astype(np.int32),
    "int64, of 16 bits": np.rint(SOUND * 2**15).astype(np.int64),
    "a list": SOUND.tolist(),
    "(time, 1)": SOUND[:, None],
    "(1, time)": SOUND[None],
    "(time, 2)": np.stack([SOUND, SOUND], 1),
    "(2, time)": np.stack([SOUND, SOUND]),
    "every second": np.repeat(SOUND, 2)[::2],
    "a tensor": torch.from_numpy(SOUND),
    "a tensor (1, time)": torch.from_numpy(SOUND)[None],
    "a tensor of bfloat16": torch.from_numpy(SOUND).bfloat16(),
    "a tensor of int16": torch.from_numpy(np.rint(SOUND * 2**15).astype(np.int16)),
    "a tensor that learns": torch.from_numpy(SOUND.copy()).requires_grad_(),
}


@pytest.mark.parametrize("form", FORMS)
def test_usual_types_and_layouts_are_the_same_sound(form: str):
    out = Intake(RATE)(FORMS[form])
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, SOUND, atol=0.006 if "8" in form or "bfloat" in form else 5e-4)


def test_read_only_samples_can_be_made_a_tensor_without_a_warning():
    sound = SOUND.copy()
    sound.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.from_numpy(Intake(RATE)(sound))


REFUSED = {
    "bytes": SOUND.tobytes(),
    "a memory view": memoryview(SOUND.tobytes()),
    "text": "hello",
    "objects": np.array([None, "a"], object),
    "dates": np.zeros(9, "M8[s]"),
    "complex numbers": SOUND.astype(complex),
    "truths": SOUND > 0,
    "a number": 0.5,
    "nothing": None,
    "a path": Path("a.wav"),
    "an open file": io.BytesIO(b"abc"),
    "samples with their rate": (SOUND, RATE),
    "samples with their rate, in a dict": {"array": SOUND, "sampling_rate": RATE},
    "three axes": SOUND.reshape(2, -1, 4),
    "no channels": np.zeros((0, 800), np.float32),
    "too many channels": np.zeros((800, 100), np.float32),
    "lists of different lengths": [[0.1, 0.2], [0.3]],
    "integers of more than 16 bits in 64": np.full(9, 2**20),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_no_sound_is_one_clear_error(form: str):
    with pytest.raises(AudioError) as caught:
        Intake(RATE)(REFUSED[form])
    assert "\n" not in str(caught.value)
    if "rate" in form:
        assert "rate as an argument of its own" in str(caught.value)


@pytest.mark.parametrize("rate", [0, -1, 1, 999, 768001, 1e30, np.nan, np.inf, None, "16000", True])
def test_impossible_rates_are_one_clear_error(rate):
    with pytest.raises(AudioError, match="sample rate"):
        check_rate(rate)


@pytest.mark.parametrize("rate", [1000, 16000, 44100.0, np.int64(48000), 768000])
def test_possible_rates(rate):
    check_rate(rate)


@pytest.mark.parametrize("sound", [[], np.zeros(0), np.zeros((0, 2))])
def test_nothing_is_no_error(sound):
    assert as_array(sound).shape[0] == 0
    assert Intake(RATE)(sound).shape == (0,)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_a_value_that_is_no_sound_becomes_silence(wild: float):
    sound = SOUND.copy()
    sound[4000] = wild
    out, told = taken(sound, 20)
    assert out[4000] == 0
    np.testing.assert_array_equal(np.delete(out, 4000), np.delete(SOUND, 4000))
    assert len(told) == 1
    assert "no sound" in told[0]


@pytest.mark.parametrize("wild", [30.0, 1e3, 1e5, -1e5])
def test_a_wild_value_is_clipped_and_told_and_moves_no_other(wild: float):
    quiet = 0.01 * SOUND
    quiet[4000] = wild
    out, told = taken(quiet, 20)
    assert out[4000] == np.sign(wild)
    np.testing.assert_array_equal(np.delete(out, 4000), np.delete(0.01 * SOUND, 4000))
    assert len(told) == 1
    assert "clipped" in told[0]


@pytest.mark.parametrize("blocks", [1, 20])
@pytest.mark.parametrize("full_scale", [2.0**15, 2.0**31])
def test_integers_stored_as_floats_are_scaled_and_told(full_scale: float, blocks: int):
    sound = np.concatenate([1e-4 * SOUND, SOUND])
    out, told = taken(np.rint(sound * full_scale).astype(np.float32), blocks)
    np.testing.assert_allclose(out, sound, atol=1e-4)
    assert len(told) == 1
    assert "integers" in told[0]


def test_what_lossy_codecs_leave_above_full_scale_is_not_told():
    out, told = taken(2.2 * SOUND)
    assert out.max() == 1
    assert not told


@pytest.mark.parametrize("blocks", [1, 20])
@pytest.mark.parametrize("other", [-1.0, -0.9])
def test_where_channels_cancel_each_other_the_stronger_is_taken(other: float, blocks: int):
    out, told = taken(np.stack([SOUND, other * SOUND], 1), blocks)
    np.testing.assert_array_equal(out, SOUND)
    assert len(told) == 1
    assert "cancel" in told[0]


@pytest.mark.parametrize("others", [[SOUND], [0 * SOUND], [OTHER], [0.5 * OTHER, -OTHER], [0 * SOUND] * 7])
def test_other_channels_are_averaged(others):
    channels = np.stack([SOUND, *others], 1)
    out, told = taken(channels, 20)
    np.testing.assert_allclose(out, channels.mean(1), atol=1e-6)
    assert not told


def test_a_block_that_is_short_has_the_layout_of_those_before():
    intake = Intake(RATE)
    stereo = np.stack([SOUND, 0 * SOUND])
    blocks = [stereo[:, :1000], stereo[:, 1000:1002], stereo[:, 1002:1003], stereo[:, 1003:1003], stereo[:, 1003:]]
    np.testing.assert_array_equal(np.concatenate([intake(block) for block in blocks]), SOUND / 2)


numbers = st.floats(width=32) | st.floats(-1, 1, width=32)


@given(
    arrays.arrays(np.float32, st.integers(0, 200) | st.tuples(st.integers(0, 200), st.integers(1, 3)), elements=numbers)
)
def test_whatever_comes_in_what_comes_out_is_sound(values):
    out = Intake(RATE)(values)
    assert out.ndim == 1
    assert out.dtype == np.float32
    assert (np.abs(out) <= 1).all()

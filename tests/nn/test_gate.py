"""The speech gate judges positions in the light of what follows; the built-in one tells speech at any level."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.audio.files import read_audio
from asr.errors import ModelError
from asr.nn.features import SILENCE, LogMel
from asr.nn.gate import SpeechGate
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.vit_weights import save_vit
from asr.recognition.track import GateTrack
from tests.recordings import SAMPLE
from tests.small import GATE, randomise


def small_gate(late: int = 1) -> SpeechGate:
    return randomise(SpeechGate(VisionTransformer(GATE), late), 0)


def frames(batch: int, time: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, GATE.image[0], generator=g) * 2 - 6


def logmel() -> LogMel:
    return LogMel().design()


def test_what_lies_further_back_than_the_window_is_forgotten():
    gate, x = small_gate(), frames(1, 60)
    y, _ = gate(x)
    changed, _ = gate(torch.cat([frames(1, 30, seed=1), x[:, 30:]], 1))
    torch.testing.assert_close(y[:, 18:], changed[:, 18:])


def test_later_judgements_are_of_earlier_positions():
    """All of one window's logits come out, whichever is asked for: oldest first."""
    x = frames(1, 24)
    logits = small_gate().judge(x)[0].sigmoid()
    last = [small_gate(late)(x)[0][0, -2:] for late in (2, 1, 0)]
    torch.testing.assert_close(torch.cat(last), logits, rtol=0, atol=1e-5)


@given(st.floats(-3, 1))
def test_the_level_of_a_window_does_not_matter(decades):
    gate, x = small_gate(), frames(1, 24)
    torch.testing.assert_close(gate.judge(x + decades), gate.judge(x), rtol=0, atol=1e-3)


def test_a_track_gives_each_position_its_probability():
    gate, x = small_gate(), frames(1, 60)
    expected = gate(x)[0][0, gate.lag :]
    track = GateTrack(gate)
    assert track.between(0, 3).tolist() == [0, 0, 0]
    for part in x.split([5, 13, 30, 12], 1):
        track.accept(part)
    known = 20 - gate.lag
    torch.testing.assert_close(track.between(0, known), expected)
    assert track.between(0, known + 5)[-5:].tolist() == [float(expected[-1])] * 5
    judged = known - gate.positions  # what was known a step earlier
    earlier = track.between(0, known, heard=60 - gate.step)
    torch.testing.assert_close(earlier[:judged], expected[:judged])
    assert earlier[judged:].tolist() == [float(expected[judged - 1])] * gate.positions
    assert track.between(0, 2, heard=gate.step - 1).tolist() == [0, 0]
    track.forget(10)
    torch.testing.assert_close(track.between(10, known), expected[10:])
    assert track.between(8, 10).tolist() == [float(expected[10])] * 2
    track.forget(500)
    assert track.between(30, 31).tolist() == [float(expected[-1])]


def test_sizes_that_are_no_gate_are_refused(tmp_path):
    vit = VisionTransformer(GATE)
    with pytest.raises(ValueError, match="0 to 2 steps late, not 3"):
        SpeechGate(vit, 3)
    with pytest.raises(ValueError, match="not the positions of whole steps"):
        SpeechGate(VisionTransformer(ViTConfig(**{**vars(GATE), "classes": 5})))
    save_vit(vit, tmp_path)
    with pytest.raises(ModelError, match="not a speech gate"):
        SpeechGate.load(tmp_path, late=9)


# ---- the built-in gate ----


def probabilities(wave: np.ndarray | torch.Tensor) -> torch.Tensor:
    """The built-in gate's probability of each position of samples `(time,)`."""
    gate = SpeechGate.load()
    log_power, _ = logmel()(torch.as_tensor(wave, dtype=torch.float32)[None])
    return gate(log_power)[0][0, gate.lag :]


def speech() -> torch.Tensor:
    return torch.from_numpy(read_audio(SAMPLE, 16000))


@pytest.mark.parametrize("rms", [0.001, 0.01, 0.1])
def test_speech_is_heard_at_any_level(rms):
    wave = speech()
    wave = torch.cat([torch.zeros(8000), wave * rms / wave.square().mean().sqrt(), torch.zeros(24000)])
    heard = probabilities(wave.clamp(-1, 1))
    assert heard[30:].max() > 0.95
    assert (heard[25 : len(heard) - 63] > 0.5).float().mean() > 0.5
    assert (heard[-50:] < 0.1).all()


@pytest.mark.parametrize("rms", [1e-5, 0.001, 0.03, 0.3])
def test_noise_tones_and_silence_are_no_speech(rms):
    g = torch.Generator().manual_seed(0)
    time = torch.arange(5 * 16000) / 16000
    for sound in (
        torch.randn(len(time), generator=g),
        torch.sin(2 * math.pi * 440 * time),
        sum(torch.sin(2 * math.pi * f * time) for f in (261.6, 329.6, 392.0)),
        torch.sin(2 * math.pi * 50 * time) + torch.sin(2 * math.pi * 100 * time) / 2,
    ):
        wave = sound / sound.square().mean().sqrt() * rms
        assert (probabilities(wave.clamp(-1, 1)) > 0.5).float().mean() < 0.02
    assert (probabilities(torch.zeros(32000)) < 0.1).all()


def test_the_built_in_gate_is_small():
    assert sum(p.numel() for p in SpeechGate.load().parameters()) * 2 < 1_000_000
    assert SpeechGate.load().start().recent.max() == SILENCE

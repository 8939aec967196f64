"""Log-mel frames: their definition, and the level that is read back from them."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torchaudio.functional import melscale_fbanks

from asr.nn.features import SPEECH_RMS, LogMel, level_gain, scale_frames

MEL = LogMel().design()


def sound(seed: int, samples: int, batch: int = 1) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, samples, generator=g) * 10 ** torch.empty(batch, 1).uniform_(-3, -0.5, generator=g)


@given(st.integers(0, 99), st.integers(128, 9000), st.floats(0.01, 20))
def test_equals_a_plain_whole_utterance_computation(seed, samples, gain):
    """torch.stft of the zero-padded signal, torchaudio's triangles, in the words of the definition."""
    x = sound(seed, samples)
    padded = torch.nn.functional.pad(x, (272, 0))
    window = torch.hann_window(400, periodic=True)
    spectrum = torch.stft(padded, 400, 128, 400, window, center=False, return_complex=True)
    filters = melscale_fbanks(201, 0, 8000, 80, 16000, norm="slaney", mel_scale="slaney")
    power = (spectrum.abs() ** 2).transpose(1, 2) @ filters
    expected = ((power.clamp(min=1e-10).log10() + 2 * torch.tensor(gain).log10()).clamp(min=-6.5) + 4) / 4
    frames = scale_frames(MEL(x)[0], gain)
    assert frames.shape == (1, samples // 128, 80)
    torch.testing.assert_close(frames, expected, atol=1e-4, rtol=0)


@given(st.integers(0, 99))
def test_level_is_read_back_from_the_frames(seed):
    x = sound(seed, 16000)
    frames, _ = MEL(x)
    measured = MEL.mean_square(frames).mean(1)
    torch.testing.assert_close(measured, x.square().mean(1), rtol=0.05, atol=0)
    torch.testing.assert_close(
        level_gain(measured) * x.square().mean(1).sqrt(), torch.full((1,), SPEECH_RMS), rtol=0.05, atol=0
    )


def test_gain_is_an_addition_to_log_power_and_is_bounded():
    x = sound(6, 4000) * 0.1
    torch.testing.assert_close(scale_frames(MEL(x)[0], 4.0), scale_frames(MEL(4 * x)[0], 1.0), atol=1e-4, rtol=0)
    assert level_gain(torch.zeros(1)).item() == 1000

"""The level of a stream: followed while there is speech, held while there is none."""

import pytest
import torch

from asr.nn.features import SPEECH_RMS
from asr.nn.level import LevelState, follow_level, loud_from


def run(powers: torch.Tensor, chunk: int = 39):
    """Gains chunk by chunk for mean squares `(frames,)`."""
    state, gains = LevelState.start(1, powers), []
    for piece in powers[None].split(chunk, 1):
        gain, state = follow_level(piece, piece.shape[1], state)
        gains.append(gain.item())
    return gains, state


def speech(level: float, seconds: float) -> torch.Tensor:
    """Frames that rise and fall as syllables do, with this mean square on average."""
    t = torch.arange(round(seconds * 125))
    shape = torch.sin(t * 2 * torch.pi * 4 / 125).clamp(min=0) ** 2 + 1e-3
    return level * shape / shape.mean()


def test_speech_of_any_level_is_brought_to_the_level_the_encoder_expects():
    for level in (1e-6, 2.5e-3, 0.1):
        gains, _ = run(speech(level, 10))
        wanted = SPEECH_RMS / level**0.5
        assert 0.7 * wanted < gains[0] < 1.4 * wanted
        assert 0.8 * wanted < gains[-1] < 1.25 * wanted


def test_silence_does_not_drive_the_gain_up():
    noise = 1e-7 * (1 + 0.3 * torch.rand(125 * 120, generator=torch.Generator().manual_seed(0)))
    talk = speech(1e-3, 39 * 32 / 125)
    gains, state = run(torch.cat([talk, noise]))
    assert set(gains[32:]) == {gains[32]}
    assert gains[32] == pytest.approx(SPEECH_RMS / 1e-3**0.5, rel=0.3)
    assert noise.max() < loud_from(state).item() < 1e-4
    only_noise, _ = run(noise)
    assert set(only_noise) == {1.0}


def test_clicks_far_below_the_speech_do_not_drive_the_gain_up():
    clicks = torch.full((125 * 60,), 1e-8)
    clicks[::50] = 1e-6
    gains, _ = run(torch.cat([speech(1e-2, 39 * 32 / 125), clicks]))
    assert set(gains[32:57]) == {gains[32]}


def test_a_new_level_is_found_within_seconds():
    gains, _ = run(torch.cat([speech(1e-2, 20), speech(1e-5, 12)]))
    assert 0.7 < gains[-1] / (SPEECH_RMS / 1e-5**0.5) < 1.4


def test_only_the_last_seconds_count():
    tail = speech(1e-3, 20)
    after_loud, _ = run(torch.cat([speech(1e-2, 39 * 40 / 125), tail]))
    fresh, _ = run(tail)
    assert after_loud[-20:] == fresh[-20:]

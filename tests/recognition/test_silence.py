"""Silence stays silent: no words, not even for a moment, come out of sound in which nobody speaks."""

from __future__ import annotations

import numpy as np
import pytest

from asr.events import Final, Partial
from asr.recognition.recognizer import Recognizer, StreamOptions

RATE = 16000
SECONDS = 5


def coloured(g: np.random.Generator, size: int, slope: float) -> np.ndarray:
    """Noise whose power falls with the frequency to the power of `slope`: 0 white, 1 pink, 2 brown."""
    frequencies = np.fft.rfftfreq(size, 1 / RATE)
    frequencies[0] = frequencies[1]
    return np.fft.irfft(np.fft.rfft(g.normal(size=size)) * frequencies ** (-slope / 2), size)


def tone(frequency: float, size: int, overtones: int, decay: float = 0.0) -> np.ndarray:
    t = np.arange(size) / RATE
    waves = (np.sin(2 * np.pi * k * frequency * t) / k for k in range(1, overtones + 1))
    return sum(waves) * np.exp(-decay * t)


def fan(g: np.random.Generator, size: int) -> np.ndarray:
    t = np.arange(size) / RATE
    blades = coloured(g, size, 1)
    return blades / blades.std() * (1 + 0.3 * np.sin(2 * np.pi * 9 * t)) + 0.3 * tone(118, size, 3)


def chords(g: np.random.Generator, size: int) -> np.ndarray:
    """Three struck strings at a time."""
    sound, at = np.zeros(size), 0
    while at < size:
        length = min(int(RATE * g.choice([0.25, 0.5, 1.0])), size - at)
        for frequency in g.choice([220, 261.6, 329.6, 392, 440, 523.3], 3, replace=False):
            sound[at : at + length] += tone(frequency, length, 5, 3)
        at += length
    return sound


def keyboard(g: np.random.Generator, size: int) -> np.ndarray:
    """Keys that go down and up, a few a second, in a quiet room."""
    sound, at, length = g.normal(0, 0.003, size), 0, RATE // 80
    t = np.arange(length) / RATE
    while (at := at + int(RATE * g.uniform(0.06, 0.4))) + RATE // 8 < size:
        for delay, strength in ((0, 1.0), (int(RATE * g.uniform(0.05, 0.1)), 0.5)):
            click = 0.6 * g.normal(size=length) + np.sin(2 * np.pi * g.uniform(1500, 4000) * t)
            sound[at + delay : at + delay + length] += strength * g.uniform(0.5, 1) * np.exp(-400 * t) * click
    return sound


SOUNDS = {
    "silence": lambda g, size: np.zeros(size),
    "white noise": lambda g, size: coloured(g, size, 0),
    "pink noise": lambda g, size: coloured(g, size, 1),
    "brown noise": lambda g, size: coloured(g, size, 2),
    "hum": lambda g, size: tone(50, size, 7),
    "fan": fan,
    "chords": chords,
    "keyboard": keyboard,
}


@pytest.fixture(scope="module")
def recognizer():
    return Recognizer.load()


def words_of(recognizer, kind: str, level: float, seed: int = 0) -> list[str]:
    """Texts of partials and finals of a stream of such sound with that root mean square."""
    sound = SOUNDS[kind](np.random.default_rng(seed), RATE * SECONDS)
    sound = sound / max(1e-9, np.sqrt(np.mean(sound**2))) * level
    stream = recognizer.stream(StreamOptions(640, 0, partials="decoder"))
    events = stream.accept(sound.clip(-1, 1).astype(np.float32), RATE) + stream.finish()
    return [event.text for event in events if isinstance(event, (Partial, Final))]


@pytest.mark.parametrize("kind", SOUNDS)
def test_no_words_come_out_of_sound_without_speech(recognizer, kind):
    assert words_of(recognizer, kind, 0.03) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", [1e-4, 1e-3, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("kind", SOUNDS)
def test_at_no_level(recognizer, kind, level):
    assert [words for seed in (1, 2, 3) for words in words_of(recognizer, kind, level, seed)] == []

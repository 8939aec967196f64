"""A made-up language whose letters are sounds of two formants: speech that tests can make anywhere in no time."""

from __future__ import annotations

import json
import random
import wave
from pathlib import Path

import numpy as np

RATE = 16000  # hertz
LETTER = 0.09  # seconds
PAUSE = 0.12  # seconds between words
LETTERS = "aeioukmnst"
WORDS = ("mako", "sinu", "teki", "numa", "kota", "sime", "tuno", "meka", "nosi", "kute")


def speak(text: str, pitch: float = 120.0, level: float = 0.1) -> np.ndarray:
    """Samples `(time,)` of a text: harmonics of a pitch (hertz) under two resonances for each letter."""
    sound = [np.zeros(round(PAUSE * RATE))]
    time = np.arange(round(LETTER * RATE)) / RATE
    envelope = np.sin(np.pi * time / LETTER) ** 0.5
    harmonics = pitch * np.arange(1, int(4000 / pitch))
    for letter in text:
        if letter == " ":
            sound.append(np.zeros(round(PAUSE * RATE)))
            continue
        number = LETTERS.index(letter)
        first, second = 250 + 130 * (number % 5), 1000 + 260 * number
        weights = sum(np.exp(-(((harmonics - formant) / 120) ** 2)) for formant in (first, second))
        sound.append(envelope * (weights @ np.sin(2 * np.pi * harmonics[:, None] * time)))
    samples = np.concatenate([*sound, np.zeros(round(PAUSE * RATE))])
    return (samples * level / np.sqrt(np.mean(samples**2))).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())


def write_corpus(folder: Path, utterances: int = 20, words: int = 3, seed: int = 0) -> Path:
    """WAV files of random sentences and their manifest, whose path is returned."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(utterances):
        text = " ".join(draw.choices(WORDS, k=words))
        samples = speak(text, draw.uniform(100, 180), draw.uniform(0.02, 0.2))
        write_wav(folder / f"{number:02d}.wav", samples)
        lines.append({"audio_filepath": f"{number:02d}.wav", "duration": len(samples) / RATE, "text": text})
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return manifest

"""Sounds to train small classifiers on: corpora in memory, where speech is in them, noises, and mixtures of both."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from asr.manifest import Manifest
from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import LogMel

RATE = 16000
BELOW_PEAK = 10**-3.5  # of power: speech is at most 35 dB softer than its loud parts
ABOVE_FLOOR = 10.0  # of power: speech is at least 10 dB louder than what lies under it
CONTRAST = 10**1.8  # of power between loud parts and floor, without which nobody can tell where speech is
PAUSE = 9  # positions (0.22 s): shorter gaps are part of speech
BURST = 3  # positions: shorter sounds are clicks
NOISE_FOLDS, TEST_FOLDS = 5, (3, 4)  # of each class of noise, in the order of the manifest


@dataclass(frozen=True)
class Sound:
    """A recording: int16 samples, and what its manifest says of it."""

    samples: np.ndarray
    text: str
    corpus: str

    def wave(self) -> Tensor:
        """Samples `(time,)` in [-1, 1]."""
        return torch.from_numpy(self.samples.astype(np.float32) / 32768)


def load_sounds(manifest: Path, most: int | None = None, seed: int = 0) -> list[Sound]:
    """The recordings of a manifest, or `most` of them, drawn with a seed."""
    corpus = Manifest(manifest, require_text=False)
    rows = list(range(len(corpus)))
    if most is not None and most < len(rows):
        rows = sorted(random.Random(seed).sample(rows, most))
    sounds = []
    for row in rows:
        samples = np.clip(corpus.read_audio(corpus[row], RATE) * 32768, -32768, 32767).astype(np.int16)
        sounds.append(Sound(samples, corpus[row].text, Path(manifest).parent.name))
    return sounds


def load_corpora(folder: Path, amounts: Mapping[str, int | None]) -> list[Sound]:
    """What corpora in a folder have to train on, at most so many recordings of each; None = all."""
    return [sound for name, most in amounts.items() for sound in load_sounds(folder / name / "train.jsonl", most)]


def load_noises(corpora: Path) -> tuple[list[Sound], list[Sound]]:
    """The noises among the corpora, as `split_noises` splits them."""
    return split_noises(load_sounds(corpora / "noise" / "train.jsonl"))


def split_noises(noises: Sequence[Sound]) -> tuple[list[Sound], list[Sound]]:
    """Noises to train on and noises held out: of each class the last two fifths, in the order of the manifest.

    ESC's recordings come in the order of its folds, which keep cuts of one original together.
    """
    classes: dict[str, list[Sound]] = {}
    for noise in noises:
        classes.setdefault(noise.text, []).append(noise)
    train, test = [], []
    for members in classes.values():
        for index, noise in enumerate(members):
            (test if index * NOISE_FOLDS // len(members) in TEST_FOLDS else train).append(noise)
    return train, test


# ---- where speech is ----


def speech_positions(wave: Tensor, features: LogMel) -> Tensor | None:
    """Which positions `(positions,)` of a clean recording `(time,)` hold speech, told by their level.

    None where speech and background are too close to tell.
    """
    log_power, _ = features(wave[None])
    power = features.mean_square(log_power)[0]
    power = power[: len(power) // SUBSAMPLING * SUBSAMPLING].view(-1, SUBSAMPLING).mean(1)
    if len(power) < 5:
        return None
    peak, floor = power.quantile(0.95), power.quantile(0.05).clamp(min=1e-10)
    if peak < CONTRAST * floor:
        return None
    loud = (power > torch.maximum(BELOW_PEAK * peak, ABOVE_FLOOR * floor)).tolist()
    return torch.tensor(_fill(_fill(loud, True, BURST), False, PAUSE))


def _fill(flags: list[bool], value: bool, shorter: int) -> list[bool]:
    """Turns runs of `value` that are shorter than so many positions; of False only those between two of True."""
    result, start = list(flags), 0
    while start < len(flags):
        end = start
        while end < len(flags) and flags[end] == flags[start]:
            end += 1
        inner = value or (start > 0 and end < len(flags))
        if flags[start] == value and end - start < shorter and inner:
            result[start:end] = [not value] * (end - start)
        start = end
    return result


# ---- noises that nobody has to record ----


def synthetic_noise(size: int, draw: random.Random) -> Tensor:
    """One of many kinds of noise `(size,)`, root mean square 1 (0 for silence)."""
    kind = draw.choice((coloured, coloured, tones, chords, hum, clicks, bursts, silence))
    noise = kind(size, draw)
    return noise / noise.square().mean().sqrt().clamp(min=1e-9)


def silence(size: int, draw: random.Random) -> Tensor:
    return torch.zeros(size)


def coloured(size: int, draw: random.Random) -> Tensor:
    """Noise whose power falls or rises with frequency, sometimes in a band, sometimes swelling."""
    spectrum = torch.fft.rfft(torch.randn(size))
    hertz = torch.linspace(0, RATE / 2, len(spectrum))
    shape = hertz.clamp(min=40) ** -draw.uniform(-0.3, 1.2)
    if draw.random() < 0.4:
        centre, width = math.exp(draw.uniform(math.log(100), math.log(6000))), draw.uniform(0.1, 1.5)
        shape = shape * torch.exp(-0.5 * ((hertz.clamp(min=1) / centre).log() / width) ** 2)
    noise = torch.fft.irfft(spectrum * shape, size)
    return noise * _swell(size, draw) if draw.random() < 0.5 else noise


def tones(size: int, draw: random.Random) -> Tensor:
    """Beeps, sirens and whistles: tones that begin, end and glide."""
    result = torch.zeros(size)
    for _ in range(draw.randint(1, 6)):
        length = min(size, int(RATE * draw.choice((0.05, 0.1, 0.2, 0.5, 1.0, 4.0))))
        start = draw.randint(0, size - length)
        time = torch.arange(length) / RATE
        hertz = math.exp(draw.uniform(math.log(80), math.log(5000)))
        glide = draw.choice((0.0, 0.0, draw.uniform(-1, 1)))
        wobble = draw.choice((0.0, draw.uniform(0, 0.05))) * torch.sin(2 * math.pi * draw.uniform(2, 9) * time)
        phase = 2 * math.pi * torch.cumsum(hertz * (2.0 ** (glide * time)) * (1 + wobble), 0) / RATE
        overtones = draw.choice((1, 1, 2, 5))
        tone = sum(torch.sin(k * phase) / k ** draw.uniform(0.5, 2) for k in range(1, overtones + 1))
        result[start : start + length] += tone * _fade(length) * draw.uniform(0.2, 1)
    return result


def chords(size: int, draw: random.Random) -> Tensor:
    """Music of a kind: chords and a melody of decaying notes with overtones, in time, and sometimes a drum."""
    result = torch.zeros(size)
    beat = int(RATE * draw.uniform(0.15, 0.6))
    root = draw.uniform(36, 60)
    decay, brightness = draw.uniform(0.5, 6), draw.uniform(0.7, 2.2)
    for start in range(draw.randint(0, beat), size, beat):
        notes = draw.choice(((0, 4, 7), (0, 3, 7), (0, 5, 9), (2, 5, 11), (0, 7), (0,)))
        melody = draw.choice((12, 14, 16, 17, 19, 21, 24))
        length = min(size - start, int(beat * draw.uniform(1, 3)))
        time = torch.arange(length) / RATE
        for note in (*notes, melody) if draw.random() < 0.85 else ():
            hertz = 440 * 2 ** ((root + note - 69) / 12)
            phase = 2 * math.pi * hertz * time + draw.choice((0, 0.1)) * torch.sin(2 * math.pi * 5 * time)
            partials = range(1, max(2, min(12, int(RATE / 2 / hertz))))
            sound = sum(torch.sin(k * phase) / k**brightness for k in partials)
            result[start : start + length] += sound * torch.exp(-decay * time) * _fade(length)
        if draw.random() < 0.3:
            hit = min(length, 3000)
            result[start : start + hit] += torch.randn(hit) * torch.exp(-torch.arange(hit) / draw.uniform(100, 800))
    return result


def hum(size: int, draw: random.Random) -> Tensor:
    """Mains and motors: a steady low tone with many overtones, and some hiss."""
    time = torch.arange(size) / RATE
    hertz = draw.choice((50, 60, 100, 120, draw.uniform(30, 250)))
    weights = [draw.random() / k ** draw.uniform(0, 1.5) for k in range(1, draw.randint(3, 30))]
    sound = sum(w * torch.sin(2 * math.pi * hertz * k * time + draw.uniform(0, 6)) for k, w in enumerate(weights, 1))
    return sound * (1 + draw.uniform(0, 0.5) * torch.sin(2 * math.pi * draw.uniform(0.5, 20) * time)) + (
        draw.uniform(0, 0.3) * torch.randn(size)
    )


def clicks(size: int, draw: random.Random) -> Tensor:
    """Keys, knocks and clocks: short decaying sounds, regular or not."""
    result = torch.zeros(size + RATE)
    gap = draw.uniform(0.04, 1.0)
    regular = draw.random() < 0.4
    at = draw.uniform(0, gap)
    while at * RATE < size:
        length = int(RATE * math.exp(draw.uniform(math.log(0.002), math.log(0.15))))
        time = torch.arange(length) / RATE
        tone = torch.sin(2 * math.pi * math.exp(draw.uniform(math.log(80), math.log(5000))) * time)
        sound = (torch.randn(length) + draw.choice((0, 2)) * tone) * torch.exp(-5 * time * RATE / length)
        begin = int(at * RATE)
        result[begin : begin + length] += sound * draw.uniform(0.2, 1)
        at += gap if regular else draw.expovariate(1 / gap)
    return result[:size] + 1e-4 * torch.randn(size)


def bursts(size: int, draw: random.Random) -> Tensor:
    """Noise that comes and goes at the pace of syllables."""
    time = torch.arange(size) / RATE
    pace = torch.sin(2 * math.pi * draw.uniform(1, 8) * time + draw.uniform(0, 6)).clamp(min=0) ** draw.uniform(0.5, 4)
    return coloured(size, draw) * (pace + draw.choice((0, 0.01, 0.1)))


def _swell(size: int, draw: random.Random) -> Tensor:
    points = torch.tensor([[[draw.uniform(-1.5, 0) for _ in range(draw.randint(2, 12))]]])
    return 10 ** torch.nn.functional.interpolate(points, size=size, mode="linear", align_corners=True)[0, 0]


def _fade(length: int) -> Tensor:
    """Ramps of 5 ms at either end."""
    ramp = torch.arange(1, length + 1) / (0.005 * RATE)
    return torch.minimum(ramp, ramp.flip(0)).clamp(max=1)

"""Noise to train under: a bank of recordings that manifests name, or coloured noise where none are named."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from asr.errors import ManifestError
from asr.manifest import Manifest

LOWEST = 50.0  # hertz: below it coloured noise is flat
QUIET = 1e-4  # root mean square under which a recording is silence


class NoiseBank:
    """Noises of equal level, one after the other in memory.

    Args:
        pool: `(samples,)`; none = coloured noise is made instead.
        sample_rate: hertz.
    """

    def __init__(self, pool: Tensor | None = None, sample_rate: int = 16000) -> None:
        self.pool, self.sample_rate = pool, sample_rate

    @classmethod
    def load(cls, paths: Sequence[str], sample_rate: int = 16000, seconds_cap: float = 600.0) -> NoiseBank:
        """Reads recordings of manifests, in an order that is always the same, until there are `seconds_cap` seconds.

        Raises:
            ManifestError: a manifest or a recording cannot be read, or all recordings are silent.
        """
        if not paths:
            return cls(None, sample_rate)
        manifests = [Manifest(path, require_text=False) for path in paths]
        recordings = [(manifest, utterance) for manifest in manifests for utterance in manifest]
        random.Random(0).shuffle(recordings)
        noises: list[Tensor] = []
        missing = round(seconds_cap * sample_rate)
        for manifest, utterance in recordings:
            if missing <= 0:
                break
            samples = torch.from_numpy(manifest.read_audio(utterance, sample_rate))[:missing]
            level = samples.square().mean().sqrt()
            if level > QUIET:
                noises.append(samples / level)
                missing -= len(samples)
        if not noises:
            raise ManifestError(f"{', '.join(map(str, paths))}: no noise: all of the recordings are silent")
        return cls(torch.cat(noises), sample_rate)

    def to(self, device: torch.device) -> NoiseBank:
        return NoiseBank(None if self.pool is None else self.pool.to(device), self.sample_rate)

    def draw(self, rows: int, time: int, device: torch.device) -> Tensor:
        """Noise `(rows, time)` of mean square about 1: a stretch of the bank for each row."""
        if self.pool is None:
            return coloured_noise(rows, time, self.sample_rate, device)
        start = torch.randint(len(self.pool), (rows, 1), device=device)
        return self.pool[(start + torch.arange(time, device=device)) % len(self.pool)]


def coloured_noise(rows: int, time: int, sample_rate: int, device: torch.device) -> Tensor:
    """White, pink or brown noise `(rows, time)`: power falls with the frequency to the power of 0, 1 or 2."""
    spectrum = torch.fft.rfft(torch.randn(rows, time, device=device))
    hertz = torch.linspace(0, sample_rate / 2, spectrum.shape[1], device=device).clamp(min=LOWEST)
    slope = torch.randint(3, (rows, 1), device=device) / 2
    noise = torch.fft.irfft(spectrum * hertz**-slope, time)
    return noise / noise.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)

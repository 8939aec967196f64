"""Augmentation on the training device: speed, noise, rooms, telephones, codecs, level and SpecAugment.

Everything is drawn from torch's generators, which the loop seeds for each batch.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor
from torchaudio.functional import mask_along_axis_iid, mu_law_decoding, mu_law_encoding, resample

from asr.nn.encoder import SUBSAMPLING
from asr.nn.masks import padding_mask
from asr.training.config import AugmentConfig
from asr.training.data import Batch
from asr.training.noise import NoiseBank

MASKED = 0.0  # scaled frames: near the mean of speech at its usual level
TALKERS = 3  # voices of a babble
REVERBERATION = (0.1, 0.8)  # seconds in which a room's sound decays by 60 dB
DIRECT_DB = (-3.0, 15.0)  # energy of the direct path over that of all echoes (decibels)
TELEPHONE = (300.0, 3400.0)  # hertz
SKIRT = 100.0  # hertz in which the telephone's band ends
FINE_BITS = (8, 11)  # of the even quantisation


# ---- samples ----


def perturb_speed(batch: Batch, config: AugmentConfig, hop: int) -> Batch:
    """The batch at one of `config.speed`, faster above 1; pitch changes along (Ko et al. 2015).

    The batch stays as it is where some row would become too short for its targets. The tail keeps its length.
    """
    if set(config.speed) <= {1.0} or not len(batch):
        return batch
    factor = config.speed[int(torch.randint(len(config.speed), ()))]
    if factor == 1:
        return batch
    ratio = Fraction(factor).limit_denominator(100)
    sounding = batch.sounding * ratio.denominator // ratio.numerator
    lengths = sounding + (batch.sample_lengths - batch.sounding)
    if (_positions_needed(batch) > lengths // hop // SUBSAMPLING).any() or sounding.min() < 1:
        return batch
    samples = resample(batch.samples, ratio.numerator, ratio.denominator)
    time = int(lengths.max())
    samples = torch.nn.functional.pad(samples, (0, max(0, time - samples.shape[1])))[:, :time]
    samples = samples * padding_mask(sounding, time)
    return replace(batch, samples=samples, sample_lengths=lengths, sounding=sounding)


def _positions_needed(batch: Batch) -> Tensor:
    """The fewest positions `(batch,)` in which CTC can write the targets."""
    inside = padding_mask(batch.target_lengths, batch.targets.shape[1])[:, 1:]
    return batch.target_lengths + (inside & (batch.targets[:, 1:] == batch.targets[:, :-1])).sum(1)


@torch.no_grad()
def augment_samples(samples: Tensor, sounding: Tensor, config: AugmentConfig, noise: NoiseBank) -> Tensor:
    """Rows as other microphones in other places would have recorded them, at the same positions and in [-1, 1].

    Args:
        samples: `(batch, time)` in [-1, 1], zeros after the end of each row.
        sounding: `(batch,)` samples of each row; what comes after them stays zero.
        config: with which probability a row gets a room, babble, noise, a telephone's band and a codec, in this order.
        noise: what to draw noise from, on the device of the samples.
    """
    inside = padding_mask(sounding, samples.shape[1])
    result = samples
    if (rows := _chosen(samples, config.room_probability)) is not None:
        result = result.index_copy(0, rows, _in_room(result[rows], noise.sample_rate) * inside[rows])
    if len(samples) > 1 and (rows := _chosen(samples, config.babble_probability)) is not None:
        result = _add(result, rows, inside, _babble(samples, sounding, rows), config)
    if (rows := _chosen(samples, config.noise_probability)) is not None:
        result = _add(result, rows, inside, noise.draw(len(rows), samples.shape[1], samples.device), config)
    if (rows := _chosen(samples, config.telephone_probability)) is not None:
        result = result.index_copy(0, rows, _telephone(result[rows], noise.sample_rate) * inside[rows])
    if (rows := _chosen(samples, config.codec_probability)) is not None:
        result = result.index_copy(0, rows, _codec(result[rows]) * inside[rows])
    return result if result is samples else _within_one(result)


def _chosen(samples: Tensor, probability: float) -> Tensor | None:
    """Indices of the rows that a change applies to; None = none of them."""
    if not probability:
        return None
    rows = (torch.rand(len(samples)) < probability).nonzero()[:, 0]
    return rows.to(samples.device) if len(rows) else None


def _uniform(low: float, high: float, like: Tensor) -> Tensor:
    """`(batch, 1)` values, one a row of `like`."""
    return low + (high - low) * torch.rand(len(like), 1, device=like.device)


def _within_one(samples: Tensor) -> Tensor:
    return samples / samples.abs().amax(1, keepdim=True).clamp(min=1.0)


def _add(samples: Tensor, rows: Tensor, inside: Tensor, other: Tensor, config: AugmentConfig) -> Tensor:
    """Adds `other` `(rows, time)` to some rows at a signal-to-noise ratio drawn from `config.snr_db`."""
    inside, signal = inside[rows], samples[rows]
    other = other * inside
    power = other.square().sum(1, keepdim=True).clamp(min=1e-12)
    ratio = signal.square().sum(1, keepdim=True) / power
    level = (ratio * 10 ** (-_uniform(*config.snr_db, other) / 10)).sqrt()
    return samples.index_copy(0, rows, signal + level * other)


def _babble(samples: Tensor, sounding: Tensor, rows: Tensor) -> Tensor:
    """Up to TALKERS other rows of the batch at once `(rows, time)`, each from somewhere on and over again."""
    time = torch.arange(samples.shape[1], device=samples.device)
    babble = torch.zeros(len(rows), samples.shape[1], device=samples.device)
    for step in range(1, min(TALKERS + 1, len(samples))):
        other = (rows + step) % len(samples)
        length = sounding[other, None].clamp(min=1)
        start = (torch.rand(len(rows), 1, device=samples.device) * length).long()
        babble += samples[other].gather(1, (start + time) % length)
    return babble


def _in_room(samples: Tensor, sample_rate: int) -> Tensor:
    """Rows `(rows, time)` with echoes: the direct path at lag 0 and decaying noise after it, no two rooms alike."""
    seconds = _uniform(*REVERBERATION, samples)
    lags = torch.arange(round(REVERBERATION[1] * sample_rate), device=samples.device) / sample_rate
    echoes = torch.randn(len(samples), len(lags), device=samples.device) * 10 ** (-3 * lags / seconds)
    echoes[:, 0] = 0
    energy = echoes.square().sum(1, keepdim=True)
    response = echoes * (10 ** (-_uniform(*DIRECT_DB, samples) / 10) / energy).sqrt()
    response[:, 0] = 1
    size = _fft_size(samples.shape[1] + len(lags))
    spectrum = torch.fft.rfft(samples, size) * torch.fft.rfft(response, size)
    return torch.fft.irfft(spectrum, size)[:, : samples.shape[1]]


def _telephone(samples: Tensor, sample_rate: int) -> Tensor:
    """What of rows `(rows, time)` lies within the band of a telephone."""
    size = _fft_size(samples.shape[1])
    spectrum = torch.fft.rfft(samples, size)
    hertz = torch.linspace(0, sample_rate / 2, spectrum.shape[1], device=samples.device)
    low, high = TELEPHONE
    band = ((hertz - low) / SKIRT + 1).clamp(0, 1) * ((high - hertz) / SKIRT + 1).clamp(0, 1)
    return torch.fft.irfft(spectrum * band, size)[:, : samples.shape[1]]


def _codec(samples: Tensor) -> Tensor:
    """Rows as 8-bit mu-law (ITU-T G.711) or evenly in few bits, by turns of a coin."""
    samples = _within_one(samples)
    coded = mu_law_decoding(mu_law_encoding(samples, 256), 256)
    bits = torch.randint(FINE_BITS[0], FINE_BITS[1] + 1, (len(samples), 1), device=samples.device)
    steps = 2.0 ** (bits - 1) / samples.abs().amax(1, keepdim=True).clamp(min=1e-4)
    return torch.where(_uniform(0, 1, samples) < 0.5, coded, (samples * steps).round() / steps)


def _fft_size(samples: int) -> int:
    """At least so many, without a large prime factor in most cases."""
    return -(-samples // 8192) * 8192


# ---- frames ----


def random_gain(batch: int, most_db: float, device: torch.device) -> Tensor:
    """Factors `(batch,)` on the samples, uniform in decibels within +- `most_db`."""
    return 10 ** ((2 * torch.rand(batch, device=device) - 1) * most_db / 20)


def spec_augment(frames: Tensor, lengths: Tensor, config: AugmentConfig) -> Tensor:
    """SpecAugment (Park et al. 2019, without time warping): each utterance has bands and stretches of its own.

    Args:
        frames: scaled, `(batch, time, mels)`.
        lengths: `(batch,)` frames of each row; stretches lie inside of them.
        config: numbers and sizes of the masks; a stretch is at most `time_share` of its utterance
            (adaptive size, Park et al. 2020).
    """
    for _ in range(config.frequency_masks):
        width = min(config.frequency_width, frames.shape[2])
        frames = mask_along_axis_iid(frames.transpose(1, 2), width, MASKED, 1).transpose(1, 2)
    if not config.time_masks or not config.time_width:
        return frames
    longest = (lengths * config.time_share).clamp(max=config.time_width)[:, None]
    size = torch.rand(len(lengths), config.time_masks, device=frames.device) * longest
    start = torch.rand_like(size) * (lengths[:, None] - size)
    time = torch.arange(frames.shape[1], device=frames.device)
    masked = (time >= start[..., None].floor()) & (time < (start.floor() + size.floor())[..., None])
    return frames.masked_fill(masked.any(1)[..., None], MASKED)

"""Log-mel features, computed as a stream: one definition for live audio, files and training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asr.nn.sizes import bounded

POWER_FLOOR = 1e-10  # smallest power per mel before the logarithm
SILENCE = math.log10(POWER_FLOOR)  # log10 power of a frame of zeros
SCALED_FLOOR = -6.5  # log10 of the smallest power that the encoder tells from silence
SPEECH_RMS = 0.05  # the level that the encoder expects of speech, full scale = 1
MAX_GAIN = 1000.0


@dataclass(frozen=True)
class FeatureConfig:
    """Sizes of the log-mel features.

    Attributes:
        sample_rate: hertz.
        window: samples of the periodic Hann window and of the Fourier transform.
        hop: samples from frame to frame.
        mels: number of Slaney mel triangles from 0 Hz to half the sample rate.
    """

    sample_rate: int = bounded(16000, 1000, 384_000)
    window: int = bounded(400, 1, 65536)
    hop: int = bounded(128, 1)
    mels: int = bounded(80, 1, 1024)

    def __post_init__(self) -> None:
        if self.hop > self.window:
            raise ValueError(f"hop: must be at most window, {self.window}, not {self.hop}")


@dataclass
class LogMelState:
    """Samples that later frames still need: `(batch, window - hop + pending)`, pending < hop."""

    tail: Tensor


class LogMel(nn.Module):
    """Samples -> frames of log10 mel power. Frame t covers samples `[hop (t + 1) - window, hop (t + 1))`, zeros before
    the start, so N samples give floor(N / hop) frames and no frame waits for later samples.

    The filters come from torchaudio (`melscale_fbanks`, Slaney scale and norm) and are kept with the weights, as are
    `widths`, which undo their norm: weighted by them, the triangles add up to one at every frequency in between.
    """

    def __init__(self, config: FeatureConfig = FeatureConfig()) -> None:
        super().__init__()
        self.config = config
        # Written out: torch.hann_window on "meta", where a model is built for loading, would import a compiler.
        hann = [0.5 - 0.5 * math.cos(2 * math.pi * n / config.window) for n in range(config.window)]
        self.register_buffer("hann", torch.tensor(hann), persistent=False)
        self.register_buffer("filters", torch.zeros(config.window // 2 + 1, config.mels))
        self.register_buffer("widths", torch.zeros(config.mels))

    def design(self) -> LogMel:
        """Computes the mel filters, for a new model; a loaded one has them among its weights."""
        from torchaudio.functional import melscale_fbanks

        c = self.config
        filters = melscale_fbanks(
            c.window // 2 + 1, 0, c.sample_rate / 2, c.mels, c.sample_rate, norm="slaney", mel_scale="slaney"
        )
        self.filters.copy_(filters)
        flat = filters.new_ones(filters.shape[0], 1)
        self.widths.copy_(torch.linalg.lstsq(filters.double(), flat.double()).solution[:, 0])
        return self

    @property
    def centres(self) -> Tensor:
        """The frequency in the middle of each mel filter, hertz `(mels,)`."""
        hertz = torch.linspace(0, self.config.sample_rate / 2, len(self.filters), device=self.filters.device)
        return hertz @ self.filters / self.filters.sum(0).clamp(min=1e-12)

    @property
    def history(self) -> int:
        """Samples before its hop that a frame reaches back."""
        return self.config.window - self.config.hop

    def start(self, batch: int = 1) -> LogMelState:
        return LogMelState(self.hann.new_zeros(batch, self.history))

    def forward(self, samples: Tensor, state: LogMelState | None = None) -> tuple[Tensor, LogMelState]:
        """Samples `(batch, time)` in [-1, 1] -> log10 power `(batch, frames, mels)` of the frames that are complete."""
        state = self.start(samples.shape[0]) if state is None else state
        signal = torch.cat([state.tail, samples], 1)
        hop = self.config.hop
        count = (signal.shape[1] - self.history) // hop
        if count == 0:
            return samples.new_zeros(samples.shape[0], 0, self.config.mels), LogMelState(signal)
        spectrum = torch.fft.rfft(signal.unfold(1, self.config.window, hop) * self.hann)
        power = (spectrum.real.square() + spectrum.imag.square()) @ self.filters
        return power.clamp(min=POWER_FLOOR).log10(), LogMelState(signal[:, count * hop :])

    def mean_square(self, log_power: Tensor) -> Tensor:
        """Mean square of the samples under each frame, `(batch, frames)`, read back from `(batch, frames, mels)`.

        Parseval's theorem on the sum of the power spectrum. What lies below the lowest mel (37 Hz) is left out: a
        constant offset and rumble are no level.
        """
        energy = self.hann.square().sum()
        return (10**log_power) @ self.widths * (2 / (self.config.window * energy))


def scale_frames(log_power: Tensor, gain: Tensor | float) -> Tensor:
    """Frames of log10 power `(batch, frames, mels)` as the encoder reads them, after a gain (a factor on the samples).

    `gain` is a number, or a tensor `(batch,)`.
    """
    shift = 2 * torch.as_tensor(gain, dtype=log_power.dtype, device=log_power.device).log10()
    return ((log_power + shift.reshape(-1, 1, 1)).clamp(min=SCALED_FLOOR) + 4) / 4


def level_gain(mean_square: Tensor) -> Tensor:
    """The gain that brings a mean square to the level that the encoder expects, at most `MAX_GAIN`."""
    return (SPEECH_RMS / mean_square.sqrt().clamp(min=1e-12)).clamp(max=MAX_GAIN)

"""Spoken words of a small vocabulary, told from other sounds by a Vision Transformer on log-mel pictures.

The gate finds stretches of speech; a window around each one is classified as a whole. Only what lies below 4 kHz is
read, so that telephones and old recordings look like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from asr.errors import ModelError
from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import SILENCE, FeatureConfig, LogMel
from asr.nn.gate import SpeechGate
from asr.nn.sound_picture import sound_picture
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.vit_weights import CONFIG, load_vit
from asr.nn.weights import MODELS

BUILT_IN = MODELS / "commands"
OPENS = 0.3  # probability of speech from which on the gate is open
JOINED = 12  # positions (0.29 s): shorter pauses lie inside a stretch
SHIFTS = (-9, 0, 9)  # frames: views of a window whose verdicts are averaged

OTHER = "other"  # the label of speech that is none of the words
COMMANDS = ViTConfig((60, 240), (60, 8), 1, d_model=96, heads=4, inner=192, layers=4, classes=17, dropout=0.1)


@dataclass(frozen=True)
class Verdict:
    """What one stretch of speech was taken for.

    Attributes:
        start, end: of the stretch (seconds).
        probabilities: of each label, likeliest first.
    """

    start: float
    end: float
    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        """The likeliest one."""
        return next(iter(self.probabilities))


class CommandClassifier:
    """Recordings -> verdicts, one for each stretch of speech.

    Args:
        vit: classifies windows.
        labels: names of its classes.
        gate: finds the speech.
    """

    def __init__(self, vit: VisionTransformer, labels: list[str], gate: SpeechGate) -> None:
        self.vit, self.labels, self.gate = vit, labels, gate
        self.features = LogMel().design()
        self.mels, self.window = vit.config.image

    @classmethod
    def load(cls, folder: Path = BUILT_IN, gate: SpeechGate | None = None) -> CommandClassifier:
        """The built-in classifier, or one in a folder.

        Raises:
            ModelError: no such classifier, or an unreadable one.
        """
        vit, extra = load_vit(folder)
        labels, c = extra.get("labels"), vit.config
        named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        if not named or len(set(labels)) != len(labels) or len(labels) != c.classes:
            raise ModelError(f"{folder / CONFIG}: not a classifier: its labels do not name the {c.classes} classes")
        mels = FeatureConfig().mels
        if c.channels != 1 or c.image[0] > mels:
            raise ModelError(f"{folder / CONFIG}: not a classifier of sound: vit.image is up to {mels} mels, 1 channel")
        return cls(vit, labels, SpeechGate.load() if gate is None else gate)

    @torch.inference_mode()
    def classify(self, samples: Tensor) -> list[Verdict]:
        """Samples `(time,)` in [-1, 1] at 16 kHz -> a verdict for each stretch of speech, in order; none in silence.

        Speech that goes on for longer than a word is judged window by window; what is none of the words is one stretch.
        """
        log_power, _ = self.features(samples[None])
        stretches = self.stretches(log_power)
        if not stretches:
            return []
        middles = [(start + end) // 2 * SUBSAMPLING for start, end in stretches]
        logits = self.judge(log_power[0], middles)
        seconds = SUBSAMPLING * self.features.config.hop / self.features.config.sample_rate
        found: list[tuple[int, int, Tensor]] = []
        for (start, end), row in zip(stretches, logits.exp(), strict=True):
            goes_on = bool(found) and found[-1][1] == start
            if goes_on and all(self.labels[int(chances.argmax())] == OTHER for chances in (found[-1][2], row)):
                before = (found[-1][1] - found[-1][0]) / (end - found[-1][0])
                found[-1] = found[-1][0], end, before * found[-1][2] + (1 - before) * row
            else:
                found.append((start, end, row))
        return [Verdict(start * seconds, end * seconds, self._named(row)) for start, end, row in found]

    def _named(self, chances: Tensor) -> dict[str, float]:
        return {self.labels[i]: float(chances[i]) for i in chances.argsort(descending=True).tolist()}

    def judge(self, log_power: Tensor, middles: list[int]) -> Tensor:
        """Log-probabilities `(windows, classes)` of the windows around some frames of `(frames, mels)`."""
        views = torch.stack([cut(log_power, m + s, self.window) for m in middles for s in SHIFTS])
        log_probs = self.vit(sound_picture(views[:, :, : self.mels])).log_softmax(-1)
        return log_probs.unflatten(0, (len(middles), -1)).mean(1).log_softmax(-1)

    def stretches(self, log_power: Tensor) -> list[tuple[int, int]]:
        """Where speech is in `(1, frames, mels)`: positions `[start, end)`, cut into parts that a window can hold."""
        tail = log_power.new_full((1, self.gate.window, log_power.shape[2]), SILENCE)
        probability = self.gate(torch.cat([log_power, tail], 1))[0][0, self.gate.lag :]
        found: list[list[int]] = []
        for position in (probability[: log_power.shape[1] // SUBSAMPLING] > OPENS).nonzero()[:, 0].tolist():
            if found and position - found[-1][1] < JOINED:
                found[-1][1] = position + 1
            else:
                found.append([position, position + 1])
        parts = []
        for start, end in found:
            count = math.ceil((end - start) * SUBSAMPLING / self.window)
            edges = [start + (end - start) * i // count for i in range(count + 1)]
            parts += pairwise(edges)
        return parts


def cut(log_power: Tensor, middle: int, size: int) -> Tensor:
    """The `size` frames of `(frames, mels)` around one, with silence before the beginning and after the end."""
    start = middle - size // 2
    inside = log_power[max(0, start) : max(0, start + size)]
    before = log_power.new_full((min(size, max(0, -start)), log_power.shape[1]), SILENCE)
    after = log_power.new_full((size - len(before) - len(inside), log_power.shape[1]), SILENCE)
    return torch.cat([before, inside, after])

"""The speech gate: a small Vision Transformer that tells speech from every other sound, about ten times a second.

It reads pictures of the last second or so of log-mel frames, the same frames as the encoder, and says of each position
of 24 ms how likely it holds speech. Only the shape of the picture matters: a window is seen against its loudest frame,
so quiet speech looks like loud speech.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from asr.errors import ModelError
from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import SILENCE
from asr.nn.sound_picture import sound_picture
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.vit_weights import CONFIG, load_vit, save_vit
from asr.nn.weights import MODELS

BUILT_IN = MODELS / "gate"

GATE = ViTConfig((80, 120), (40, 12), 1, d_model=64, heads=4, inner=128, layers=3, classes=12)


@dataclass
class GateState:
    """What a stream has to keep: the frames that the next window reaches back to and those of a step not yet complete.

    Attributes:
        recent: `(batch, window - step + pending, mels)` log10 power, pending < step.
    """

    recent: Tensor = field(metadata={"empty": SILENCE})


class SpeechGate(nn.Module):
    """Frames of log10 power -> the probability that each position holds speech.

    Once in a step (a patch's width, 12 frames: 96 ms) a window of frames is read, and the positions of one of its last
    steps are judged. `late` says of which: 0 = the newest, 1 = the one before it, which is judged in the light of the
    96 ms that follow, and so on. The more, the surer.

    Args:
        vit: the transformer; its classes are the last positions of a window, oldest first.
        late: steps after a step at which its positions are judged.
    """

    def __init__(self, vit: VisionTransformer, late: int = 1) -> None:
        super().__init__()
        self.vit = vit
        c = vit.config
        self.mels, self.window = c.image
        self.step = c.patch[1]
        self.positions = self.step // SUBSAMPLING  # a step
        if c.channels != 1:
            raise ValueError(f"log-mel pictures have 1 channel, not {c.channels}")
        if self.step % SUBSAMPLING or c.classes % self.positions:
            raise ValueError(f"{c.classes} classes are not the positions of whole steps of {self.step} frames")
        if not 0 <= late < c.classes // self.positions:
            raise ValueError(f"this gate judges 0 to {c.classes // self.positions - 1} steps late, not {late}")
        self.late = late

    @classmethod
    def load(cls, folder: Path = BUILT_IN, late: int = 1) -> SpeechGate:
        """The built-in gate, or one in a folder, ready for inference.

        Raises:
            ModelError: no such gate, or an unreadable one.
        """
        vit, _ = load_vit(folder)
        try:
            return cls(vit, late).eval()
        except ValueError as error:
            raise ModelError(f"{folder / CONFIG}: not a speech gate: {error}") from error

    def save(self, folder: Path, about: str = "", *, pack: str = "float16") -> None:
        """Writes the gate as `save_vit` does."""
        save_vit(self.vit, folder, {"about": about}, pack=pack)

    @property
    def lag(self) -> int:
        """Positions by which probabilities come after their sound: output i of a stream is about position i - lag."""
        return self.late * self.positions

    @property
    def history(self) -> int:
        """Frames before a step that its window reaches back to."""
        return self.window - self.step

    def start(self, batch: int = 1) -> GateState:
        return GateState(self.vit.token.new_full((batch, self.history, self.mels), SILENCE))

    def forward(self, log_power: Tensor, state: GateState | None = None) -> tuple[Tensor, GateState]:
        """Frames `(batch, time, mels)` of log10 power -> probabilities `(batch, positions)` of the steps they complete.

        Output i of a stream, counted from its start, is about position i - `lag`; the first `lag` are about the
        silence before it.
        """
        state = self.start(len(log_power)) if state is None else state
        frames = torch.cat([state.recent, log_power], 1)
        steps = (frames.shape[1] - self.history) // self.step
        if not steps:
            return log_power.new_zeros(len(log_power), 0), GateState(frames)
        windows = frames.unfold(1, self.window, self.step).flatten(0, 1).transpose(1, 2)
        last = self.vit.config.classes - self.lag
        judged = self.judge(windows)[:, last - self.positions : last].sigmoid()
        return judged.reshape(len(log_power), -1), GateState(frames[:, steps * self.step :])

    def judge(self, windows: Tensor) -> Tensor:
        """Windows `(batch, window, mels)` of log10 power -> logits `(batch, classes)` of their last positions."""
        return self.vit(sound_picture(windows))

"""From a batch of samples to its loss and gradient: augmentation, the encoder, the losses, in parts if need be."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from asr.manifest import Utterance
from asr.nn.encoder import SUBSAMPLING, EncoderOutput
from asr.nn.speech_model import SpeechModel
from asr.training.augment import augment_samples, perturb_speed, random_gain, spec_augment
from asr.training.batching import draw_seed
from asr.training.chunks import draw_chunk, draw_left_context
from asr.training.config import ChunkConfig, TrainConfig
from asr.training.data import Batch
from asr.training.losses import active_losses, loss_sizes, weighted_losses
from asr.training.memory import MemoryLimit, is_out_of_memory, release
from asr.training.noise import NoiseBank
from asr.training.progress import finite
from asr.training.teaching import Teaching


@dataclass(frozen=True)
class Setting:
    """How a batch is masked: positions a chunk, after it, and before it (none = the model's)."""

    chunk: int
    look_ahead: int
    left_context: int | None

    @classmethod
    def draw(cls, config: ChunkConfig, draw: random.Random) -> Setting:
        """One for a batch."""
        return cls(*draw_chunk(config, draw), draw_left_context(config, draw))


@dataclass(frozen=True)
class BatchLoss:
    """A batch's loss, each loss that makes it up, and the setting that was drawn for it."""

    value: float
    parts: dict[str, float]
    setting: Setting


class Forward:
    """The student's way through a batch.

    Args:
        model: the student.
        config: of the run.
        teaching: what batches are compared with.
        noise: what is added to them.
        memory: in how many parts they are done.
        bf16: matrix products are in bf16.
    """

    def __init__(
        self,
        model: SpeechModel,
        config: TrainConfig,
        teaching: Teaching,
        noise: NoiseBank,
        memory: MemoryLimit,
        bf16: bool,
    ) -> None:
        self.model, self.config, self.teaching = model, config, teaching
        self.noise, self.memory, self.bf16 = noise, memory, bf16
        self.device = model.device

    def backward(self, batch: Batch, utterances: list[Utterance]) -> BatchLoss:
        """Adds the gradient of a batch's loss to the parameters, unless the loss is not finite.

        All that is random is seeded by (seed, epoch, number of the batch). A batch that does not fit into memory is
        split by rows; what the losses are divided by is the whole batch's, so that (dropout aside) nothing changes.

        Raises:
            AsrError: not even one utterance fits.
        """
        seed = draw_seed(self.config.seed, batch.epoch, batch.number)
        torch.manual_seed(seed)
        setting = Setting.draw(self.config.chunks, random.Random(seed))
        batch = perturb_speed(batch.to(self.device), self.config.augment, self.model.config.features.hop)
        views = [self.frames(batch, augment=True) for _ in range(2 if self.config.losses.consistency else 1)]
        padded = len(batch) * batch.samples.shape[1]
        width = min(setting.chunk, views[0][0].shape[1] // SUBSAMPLING)
        size = padded * len(views) * (1 + setting.look_ahead / max(1, width))
        learning = [p for p in self.model.parameters() if p.requires_grad]
        before = [p.grad for p in learning]
        while True:
            count = self.memory.parts(size, len(batch))
            for p in learning:
                p.grad = None
            torch.manual_seed(draw_seed(self.config.seed, batch.epoch, batch.number, 1))
            try:
                value, parts = self._attempt(batch, utterances, views, setting, count)
                break
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            release(self.device)
            self.memory.failed(size, len(batch), count, padded / self.model.config.features.sample_rate)
        _add_gradients(learning, before)
        return BatchLoss(value, parts, setting)

    def _attempt(
        self,
        batch: Batch,
        utterances: list[Utterance],
        views: list[tuple[Tensor, Tensor]],
        setting: Setting,
        count: int,
    ) -> tuple[float, dict[str, float]]:
        """Loss and gradient in `count` parts; nothing of it is left in the gradients if the loss is not finite."""
        lengths = views[0][1]
        rows = torch.arange(len(batch), device=self.device).chunk(count)
        lessons = []
        for part in rows:
            with self._products():
                lessons.append(
                    self.teaching.lesson(
                        _take(batch, part),
                        [utterances[row] for row in part.tolist()],
                        lengths[part] // SUBSAMPLING,
                        setting.chunk,
                        setting.look_ahead,
                    )
                )
        sizes = loss_sizes(lessons)
        total, sums = 0.0, dict.fromkeys(active_losses(self.config.losses), 0.0)
        for part, lesson in zip(rows, lessons, strict=True):
            answers = self.encode(
                torch.cat([frames[part] for frames, _ in views]), lengths[part].repeat(len(views)), setting
            )
            with self._products():
                value, parts = weighted_losses(lesson, _split(answers, len(views)), sizes)
            number = value.item()
            total += number
            sums = {name: sums[name] + float(part) for name, part in parts.items()}
            if finite(number) is not None:
                value.backward()
            del answers, value
        if finite(total) is None:
            for p in self.model.parameters():
                p.grad = None
        return total, sums

    @torch.no_grad()
    def frames(self, batch: Batch, *, augment: bool) -> tuple[Tensor, Tensor]:
        """Scaled frames `(batch, time, mels)` at the level of speech, and the lengths of the rows in frames."""
        samples, a = batch.samples, self.config.augment
        if augment:
            samples = augment_samples(samples, batch.sounding, a, self.noise)
        log_power, _ = self.model.features(samples)
        hop = self.model.config.features.hop
        lengths, sounding = batch.sample_lengths // hop, (batch.sounding // hop).clamp(min=1)
        if not augment:
            return self.model.scale(log_power, sounding), lengths
        frames = self.model.scale(log_power, sounding, random_gain(len(batch), a.gain_db, self.device))
        return spec_augment(frames, lengths, a), lengths

    def encode(self, frames: Tensor, lengths: Tensor, setting: Setting) -> EncoderOutput:
        """The encoder's answer to scaled frames `(batch, time, mels)` of `lengths` `(batch,)`."""
        with self._products():
            return self.model.encoder.encode(
                frames,
                lengths,
                chunk=setting.chunk,
                look_ahead=setting.look_ahead,
                left_context=setting.left_context,
                taps=self.teaching.taps,
                ctc_gradient=self.config.losses.ctc_gradient,
            )

    def _products(self) -> AbstractContextManager:
        """A context of its own for each stage: what is cast without gradients must not be kept for what has them."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()


def _take(batch: Batch, rows: Tensor) -> Batch:
    """Some rows of a batch."""
    if len(rows) == len(batch):
        return batch
    tensors = {f.name: getattr(batch, f.name) for f in fields(batch) if f.type == "Tensor"}
    taken = {name: tensor[rows.to(tensor.device)] for name, tensor in tensors.items()}
    return replace(batch, **taken, names=tuple(batch.names[row] for row in rows.tolist()))


def _split(output: EncoderOutput, views: int) -> list[EncoderOutput]:
    """The answers to views that were stacked along the batch."""
    taps = [tap.chunk(views) for tap in output.taps]
    parts = zip(output.memory.chunk(views), output.log_probs.chunk(views), output.lengths.chunk(views), strict=True)
    return [EncoderOutput(*part, tuple(tap[i] for tap in taps)) for i, part in enumerate(parts)]


def _add_gradients(parameters: list[nn.Parameter], before: list[Tensor | None]) -> None:
    for p, gradient in zip(parameters, before, strict=True):
        if p.grad is None:
            p.grad = gradient
        elif gradient is not None:
            p.grad += gradient

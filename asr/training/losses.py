"""Training losses: functions of the encoder's output and of what it is taught, added up with their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from asr.decoder import AttentionDecoder
from asr.encoder import EncoderOutput
from asr.masks import FULL_CONTEXT, padding_mask
from asr.training.config import LossConfig
from asr.training.data import Batch
from asr.training.teacher import DELAY, Teacher
from asr.training.transcripts import IGNORED, Texts


@dataclass(frozen=True)
class Lesson:
    """One batch as the encoder answered it, and what the losses compare that with.

    Attributes:
        output: the student's answer, with its taps.
        batch: targets of CTC.
        config: weights and settings of the losses.
        chunk: positions a chunk.
        look_ahead: positions after it.
        teacher: the frozen teacher, where the encoder is distilled.
        taught: the teacher's residual streams `(batch, positions, d_model)` at the configured taps.
        taught_lengths: `(batch,)` positions of these.
        decoder: the attention decoder, where its words are trained.
        texts: what it is to write.
    """

    output: EncoderOutput
    batch: Batch
    config: LossConfig
    chunk: int = FULL_CONTEXT
    look_ahead: int = 0
    teacher: Teacher | None = None
    taught: tuple[Tensor, ...] = ()
    taught_lengths: Tensor | None = None
    decoder: AttentionDecoder | None = None
    texts: Texts | None = None


def ctc_loss(lesson: Lesson) -> Tensor:
    """Negative log-likelihood per target piece, of the whole batch (Graves et al. 2006).

    Utterances that have fewer positions than their text needs count as zero.
    """
    output, batch = lesson.output, lesson.batch
    total = F.ctc_loss(
        output.log_probs.transpose(0, 1),
        batch.targets,
        output.lengths,
        batch.target_lengths,
        reduction="sum",
        zero_infinity=True,
    )
    return total / batch.target_lengths.sum().clamp(min=1)


def decoder_loss(lesson: Lesson) -> Tensor:
    """Cross-entropy per piece of the texts, read by the attention decoder from the memory (teacher forcing)."""
    memory, lengths, texts = lesson.output.memory, lesson.output.lengths, lesson.texts
    logits = lesson.decoder.score(texts.inputs, memory, lengths)
    return F.cross_entropy(
        logits.float().flatten(0, 1),
        texts.targets.flatten(),
        ignore_index=IGNORED,
        label_smoothing=lesson.config.label_smoothing,
    )


def distillation_loss(lesson: Lesson) -> Tensor:
    """Error of the student's residual stream at the taps, over the power of the teacher's; the mean of the taps.

    Both are compared as the teacher's next LayerNorm sees them. Positions near the end of what their chunk can see
    cannot know what the teacher knows and count less (`edge`, `edge_weight`).
    """
    c, output = lesson.config, lesson.output
    size = min(output.memory.shape[1] - DELAY, lesson.taught[0].shape[1])
    valid = padding_mask(output.lengths - DELAY, size) & padding_mask(lesson.taught_lengths, size)
    future = visible_future(size + DELAY, lesson.chunk, lesson.look_ahead, output.memory.device)[DELAY:]
    weight = torch.where(future < c.edge, c.edge_weight, 1.0) * valid
    errors = []
    for tap, student, teacher in zip(c.taps, output.taps, lesson.taught, strict=True):
        norm = lesson.teacher.norm_after(tap)
        aim = norm(teacher[:, :size]).float()
        error = (norm(student[:, DELAY : size + DELAY]).float() - aim).square().mean(-1)
        errors.append((error * weight).sum() / (aim.square().mean(-1) * weight).sum().clamp(min=1e-6))
    return torch.stack(errors).mean()


def visible_future(size: int, chunk: int, look_ahead: int, device: torch.device) -> Tensor:
    """How many later positions each of `size` positions can see, `(size,)`, the utterance's end aside."""
    position = torch.arange(size, device=device)
    return chunk + look_ahead - 1 - position % chunk


LOSSES: dict[str, Callable[[Lesson], Tensor]] = {  # by the name of their weight in LossConfig
    "ctc": ctc_loss,
    "decoder": decoder_loss,
    "distillation": distillation_loss,
}


def weighted_losses(lesson: Lesson) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and each loss of its own, detached."""
    weights = {name: getattr(lesson.config, name) for name in LOSSES}
    parts = {name: LOSSES[name](lesson) for name, weight in weights.items() if weight}
    total = sum(weights[name] * value for name, value in parts.items())
    return total, {name: value.detach() for name, value in parts.items()}

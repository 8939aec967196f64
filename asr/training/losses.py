"""Training losses: what the encoder answers, compared with what it is taught, added up with their weights.

Each loss is a sum over something (pieces, positions) divided by how much of it there is, and that is known before the
encoder has answered: a batch that does not fit into memory is done in parts with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.nn.decoder import AttentionDecoder
from asr.nn.encoder import FULL_CONTEXT, Chunking, EncoderOutput
from asr.nn.masks import padding_mask
from asr.training.config import LossConfig
from asr.training.data import Batch
from asr.training.teacher import DELAY, Teacher
from asr.training.transcripts import IGNORED, Texts


@dataclass(frozen=True)
class Lesson:
    """What the answers to one batch are compared with.

    Attributes:
        batch: targets of CTC.
        lengths: `(batch,)` positions of each row that are no padding.
        config: weights and settings of the losses.
        chunking: what the student sees.
        taps: blocks whose residual stream an answer has, in its order (`EncoderOutput.taps`).
        head: residual stream `(..., d_model)` -> CTC log-probabilities, for intermediate CTC.
        teacher: the frozen teacher, where the encoder is distilled.
        taught: the teacher's residual streams `(batch, positions, d_model)` at the configured taps.
        taught_lengths: `(batch,)` positions of these.
        bridges: by tap, from the student's width to the teacher's where they differ.
        decoder: the attention decoder, where its words are trained.
        texts: what it is to write.
        own: `(batch, n, vocabulary)` what it says itself over the teacher's memory, as probabilities.
    """

    batch: Batch
    lengths: Tensor
    config: LossConfig
    chunking: Chunking = FULL_CONTEXT
    taps: tuple[int, ...] = ()
    head: Callable[[Tensor], Tensor] | None = None
    teacher: Teacher | None = None
    taught: tuple[Tensor, ...] = ()
    taught_lengths: Tensor | None = None
    bridges: Mapping[str, nn.Module] | None = None
    decoder: AttentionDecoder | None = None
    texts: Texts | None = None
    own: Tensor | None = None

    def tap(self, output: EncoderOutput, block: int) -> Tensor:
        """The residual stream `(batch, positions, d_model)` after a block."""
        return output.taps[self.taps.index(block)]


def ctc_sum(log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """Negative log-likelihood of targets (Graves et al. 2006), of log-probabilities `(batch, positions, vocabulary)`.

    Utterances that have fewer positions than their text needs count as zero.

    Args:
        log_probs: of which `lengths` `(batch,)` positions are no padding.
        lengths: see `log_probs`.
        targets: `(batch, pieces)`, of which `target_lengths` `(batch,)` are no padding.
        target_lengths: see `targets`.
    """
    log_probs = log_probs.float().transpose(0, 1)
    return F.ctc_loss(log_probs, targets, lengths, target_lengths, reduction="sum", zero_infinity=True)


def _ctc_of(lesson: Lesson, log_probs: Tensor) -> Tensor:
    return ctc_sum(log_probs, lesson.lengths, lesson.batch.targets, lesson.batch.target_lengths)


def piece_count(lesson: Lesson) -> Tensor:
    """Target pieces of CTC."""
    return lesson.batch.target_lengths.sum().clamp(min=1)


def ctc_loss(lesson: Lesson, views: Sequence[EncoderOutput]) -> Tensor:
    """CTC at the output; over pieces."""
    return sum(_ctc_of(lesson, view.log_probs) for view in views) / len(views)


def intermediate_loss(lesson: Lesson, views: Sequence[EncoderOutput]) -> Tensor:
    """CTC after blocks on the way, through the same norm and output layer (Lee and Watanabe 2021, section 3.1)."""
    blocks = lesson.config.intermediate_blocks
    sums = [_ctc_of(lesson, lesson.head(lesson.tap(view, block))) for view in views for block in blocks]
    return sum(sums) / len(sums)


def consistency_loss(lesson: Lesson, views: Sequence[EncoderOutput]) -> Tensor:
    """How far the CTC distributions of two augmented views lie apart (Yao et al. 2024, CR-CTC, equation 6).

    Symmetric Kullback-Leibler divergence, each view learning from the other's distribution, which stays as it is;
    summed over positions. It is counted over pieces, as CTC is, so that the paper's weight of 0.2 means the same here.
    """
    one, other = (view.log_probs for view in views)
    inside = padding_mask(lesson.lengths, one.shape[1])[..., None]
    apart = sum(
        (F.kl_div(learner, aim.detach(), reduction="none", log_target=True) * inside).sum()
        for learner, aim in ((one, other), (other, one))
    )
    return apart / 2


def text_size(lesson: Lesson) -> Tensor:
    """Pieces that the decoder is to write."""
    return (lesson.texts.targets != IGNORED).sum().clamp(min=1)


def decoder_loss(lesson: Lesson, views: Sequence[EncoderOutput]) -> Tensor:
    """Cross-entropy of the texts, read by the attention decoder from the memory (teacher forcing); over pieces.

    A share of the target (`own_share`) is what the decoder itself says over the teacher's memory: all probabilities,
    not the likeliest piece alone (Hinton et al. 2015).
    """
    texts, share, total = lesson.texts, lesson.config.own_share, 0.0
    for view in views:
        logits = lesson.decoder.score(texts.inputs, view.memory, lesson.lengths).float()
        total = total + (1 - share) * F.cross_entropy(
            logits.flatten(0, 1),
            texts.targets.flatten(),
            ignore_index=IGNORED,
            label_smoothing=lesson.config.label_smoothing,
            reduction="sum",
        )
        if share:
            apart = -(lesson.own * logits.log_softmax(-1)).sum(-1)
            total = total + share * (apart * (texts.targets != IGNORED)).sum()
    return total / len(views)


def distillation_weight(lesson: Lesson) -> Tensor:
    """How much each of the teacher's positions counts, `(batch, positions)`.

    Positions near the end of what their chunk can see cannot know what the teacher knows and count less (`edge`,
    `edge_weight`).
    """
    c, size = lesson.config, int(min(lesson.lengths.max() - DELAY, lesson.taught[0].shape[1]))
    valid = padding_mask(lesson.lengths - DELAY, size) & padding_mask(lesson.taught_lengths, size)
    future = visible_future(size + DELAY, lesson.chunking, lesson.lengths.device)[DELAY:]
    return torch.where(future < c.edge, c.edge_weight, 1.0) * valid


def teacher_power(lesson: Lesson) -> Tensor:
    """The weighted power of the teacher's residual streams at the taps, as its next LayerNorm sees them: `(taps,)`."""
    weight = distillation_weight(lesson)
    powers = [(aim.square().mean(-1) * weight).sum() for aim in _aims(lesson, weight.shape[1])]
    return torch.stack(powers).clamp(min=1e-6)


def distillation_loss(lesson: Lesson, views: Sequence[EncoderOutput]) -> Tensor:
    """Squared error of the student's residual stream at the taps, as the teacher's next LayerNorm sees it: `(taps,)`.

    Where the student is narrower than the teacher, a learnt matrix lies between them (Romero et al. 2015). Over the
    teacher's power.
    """
    weight = distillation_weight(lesson)
    errors = []
    for tap, read_by, aim in zip(
        lesson.config.taps, teacher_taps(lesson.config), _aims(lesson, weight.shape[1]), strict=True
    ):
        norm, error = lesson.teacher.norm_after(read_by), 0.0
        for view in views:
            student = lesson.tap(view, tap)[:, DELAY : aim.shape[1] + DELAY]
            student = lesson.bridges[str(tap)](student) if lesson.bridges else student
            error = error + ((norm(student.float()).float() - aim).square().mean(-1) * weight).sum()
        errors.append(error / len(views))
    return torch.stack(errors)


def teacher_taps(config: LossConfig) -> tuple[int, ...]:
    """The teacher's blocks with which the student's taps are compared."""
    return config.teacher_taps or config.taps


def _aims(lesson: Lesson, size: int) -> list[Tensor]:
    taps = zip(teacher_taps(lesson.config), lesson.taught, strict=True)
    return [lesson.teacher.norm_after(tap)(taught[:, :size].float()).float() for tap, taught in taps]


def visible_future(size: int, chunking: Chunking, device: torch.device) -> Tensor:
    """How many later positions each of `size` positions can see, `(size,)`, the utterance's end aside."""
    position = torch.arange(size, device=device)
    return chunking.chunk + chunking.look_ahead - 1 - position % chunking.chunk


@dataclass(frozen=True)
class Loss:
    """A loss: the mean of `total / size`.

    Attributes:
        total: a lesson and the views of its batch that the encoder answered -> `()` or `(parts,)`.
        size: a lesson -> what that is divided by, of the same shape, without a gradient.
    """

    total: Callable[[Lesson, Sequence[EncoderOutput]], Tensor]
    size: Callable[[Lesson], Tensor]


LOSSES: dict[str, Loss] = {  # by the name of their weight in LossConfig
    "ctc": Loss(ctc_loss, piece_count),
    "intermediate": Loss(intermediate_loss, piece_count),
    "consistency": Loss(consistency_loss, piece_count),
    "decoder": Loss(decoder_loss, text_size),
    "distillation": Loss(distillation_loss, teacher_power),
}


def active_losses(config: LossConfig) -> list[str]:
    """The losses that have a weight, in the order of `LOSSES`."""
    return [name for name in LOSSES if getattr(config, name)]


@torch.no_grad()
def loss_sizes(lessons: Sequence[Lesson]) -> dict[str, Tensor]:
    """What the losses of a batch are divided by, given the lessons of all of its parts."""
    names = active_losses(lessons[0].config)
    return {name: torch.stack([LOSSES[name].size(lesson) for lesson in lessons]).sum(0) for name in names}


def weighted_losses(
    lesson: Lesson, views: Sequence[EncoderOutput], sizes: Mapping[str, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and each loss of its own, detached.

    `sizes` are those of the whole batch (`loss_sizes`) where the lesson is of a part of it: what the parts return adds
    up to what the whole would.
    """
    sizes = loss_sizes([lesson]) if sizes is None else sizes
    parts = {name: (LOSSES[name].total(lesson, views) / size).mean() for name, size in sizes.items()}
    total = sum(getattr(lesson.config, name) * value for name, value in parts.items())
    return total, {name: value.detach() for name, value in parts.items()}

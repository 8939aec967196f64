"""Training losses: functions of the encoder's output and the batch, added up with the weights of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from torch import Tensor
from torch.nn import functional as F

from asr.encoder import EncoderOutput
from asr.training.config import LossConfig
from asr.training.data import Batch

Loss = Callable[[EncoderOutput, Batch], Tensor]


def ctc_loss(output: EncoderOutput, batch: Batch) -> Tensor:
    """Negative log-likelihood per target piece, of the whole batch (Graves et al. 2006).

    Utterances that have fewer positions than their text needs count as zero.
    """
    total = F.ctc_loss(
        output.log_probs.transpose(0, 1),
        batch.targets,
        output.lengths,
        batch.target_lengths,
        reduction="sum",
        zero_infinity=True,
    )
    return total / batch.target_lengths.sum().clamp(min=1)


LOSSES: dict[str, Loss] = {"ctc": ctc_loss}  # by the name of their weight in LossConfig


def weighted_losses(weights: LossConfig, output: EncoderOutput, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and each loss of its own, detached."""
    parts = {name: LOSSES[name](output, batch) for name, weight in asdict(weights).items() if weight}
    total = sum(getattr(weights, name) * value for name, value in parts.items())
    return total, {name: value.detach() for name, value in parts.items()}

"""CTC read on its own: the best path, where it hears something, and how likely it finds texts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from asr.tokenizer import CtcTokenizer


def ctc_greedy(log_probs: Tensor, blank: int = 0) -> list[int]:
    """Outputs of the best CTC path of `(positions, vocabulary)`: repeats collapsed, blanks taken out (Graves 2006)."""
    return [output for output in log_probs.argmax(-1).unique_consecutive().tolist() if output != blank]


def speech_posterior(log_probs: Tensor, blank: int = 0) -> Tensor:
    """Posterior of all pieces together, `(positions,)`, of log-probabilities `(positions, vocabulary)`."""
    return 1 - log_probs[:, blank].exp()


def log_likelihoods(texts: Sequence[Sequence[str]], log_probs: Tensor, tokenizer: CtcTokenizer) -> list[float]:
    """CTC's log-likelihood of each text; of one that does not fit into the positions, minus infinity."""
    targets = [torch.tensor([piece for word in text for piece in tokenizer.spell(word)]) for text in texts]
    lengths = torch.tensor([len(target) for target in targets])
    over = log_probs.float().cpu()[:, None].expand(-1, len(texts), -1)
    sizes = torch.full_like(lengths, len(log_probs))
    return (-F.ctc_loss(over, torch.cat(targets).long(), sizes, lengths, reduction="none")).tolist()

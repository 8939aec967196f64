"""CTC read on its own: the best path, and where it hears something."""

from __future__ import annotations

from torch import Tensor


def ctc_greedy(log_probs: Tensor, blank: int = 0) -> list[int]:
    """Outputs of the best CTC path of `(positions, vocabulary)`: repeats collapsed, blanks taken out (Graves 2006)."""
    return [output for output in log_probs.argmax(-1).unique_consecutive().tolist() if output != blank]


def speech_posterior(log_probs: Tensor, blank: int = 0) -> Tensor:
    """Posterior of all pieces together, `(positions,)`, of log-probabilities `(positions, vocabulary)`."""
    return 1 - log_probs[:, blank].exp()

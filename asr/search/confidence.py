"""How sure a word is: the probability that it is right, by what the attention decoder and CTC say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

# A logistic regression on the words of the dev sets of LibriSpeech, Common Voice and speechocean762:
# scripts/benchmarks/calibration.py --fit
BIAS, DECODER, CTC = 0.90, 0.64, 0.33
FURTHEST = 1e-4  # probabilities are taken to be this far from 0 and 1 at least


def word_confidence(scores: Sequence[float], heard: float) -> float:
    """The probability (0 to 1) that a word is right.

    Args:
        scores: the decoder's log-probability of each of its pieces, of which the least counts.
        heard: CTC's mean posterior where the word was aligned.
    """
    evidence = BIAS + DECODER * log_odds(math.exp(min(scores))) + CTC * log_odds(heard)
    return 1 / (1 + math.exp(-evidence))


def log_odds(probability: float) -> float:
    """The logarithm of p / (1 - p), finite."""
    probability = min(max(probability, FURTHEST), 1 - FURTHEST)
    return math.log(probability / (1 - probability))

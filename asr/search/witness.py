"""CTC as the attention decoder's witness: no words where CTC hears nothing, no tails that go round in circles."""

from __future__ import annotations

from torch import Tensor

from asr.search.greedy import Hypothesis, letter_count
from asr.tokenizer import PieceTable

LONGEST_LOOP = 12  # pieces of a phrase that may be repeated
MOST_REPEATS = 3  # a phrase said more often in a row, with more letters than CTC hears, is a loop
EXCESS = 1.5  # letters written for each letter that CTC hears, from which on repeats are not believed


def hears_speech(log_probs: Tensor, blank: int = 0) -> bool:
    """Whether greedy CTC over `(positions, vocabulary)` hears any piece at all."""
    return bool((log_probs.argmax(-1) != blank).any())


def cut_repeated_tail(hypothesis: Hypothesis, table: PieceTable, heard: str) -> Hypothesis:
    """Keeps one of the phrases that a looping decoder repeats to the end, unless CTC hears that many letters too."""
    pieces = hypothesis.pieces
    if letter_count(table.decode(pieces)) <= EXCESS * letter_count(heard):
        return hypothesis
    for size in range(1, LONGEST_LOOP + 1):
        repeats = 1
        while pieces[-size * (repeats + 1) :][:size] == pieces[-size:] and len(pieces) >= size * (repeats + 1):
            repeats += 1
        if repeats > MOST_REPEATS:
            kept = len(pieces) - size * (repeats - 1)
            return Hypothesis(pieces[:kept], hypothesis.scores[:kept])
    return hypothesis

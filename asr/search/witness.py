"""CTC as the attention decoder's witness: no words where CTC hears nothing, no tails that go round in circles."""

from __future__ import annotations

from torch import Tensor

from asr.search.greedy import Hypothesis, letter_count
from asr.tokenizer import PieceTable

LONGEST_LOOP = 12  # pieces of a phrase that may be repeated
MOST_REPEATS = 3  # a phrase said more often in a row, with more letters than CTC hears, is a loop
UTTERANCE_HEARD = 0.45  # posterior; 99 % of single spoken digits have it, 80 % of noises and struck chords do not
WORD_HEARD = 0.05  # posterior below which CTC hears nothing but blanks
NEIGHBOURHOOD = 12  # positions (0.29 s) around a word
EXCESS = 1.5  # letters written for each letter that CTC hears, from which on repeats are not believed


def heard(log_probs: Tensor, blank: int = 0) -> Tensor:
    """Posterior of all pieces together, `(positions,)`, of log-probabilities `(positions, vocabulary)`."""
    return 1 - log_probs[:, blank].exp()


def hears_speech(posterior: Tensor) -> bool:
    """Whether CTC hears a piece anywhere in an utterance, however unsure of which."""
    return bool((posterior > UTTERANCE_HEARD).any())


def hears_word(posterior: Tensor, start: int, end: int) -> bool:
    """Whether CTC hears more than blanks around positions `[start, end)`, where a word is aligned."""
    return bool((posterior[max(0, start - NEIGHBOURHOOD) : end + NEIGHBOURHOOD] > WORD_HEARD).any())


def cut_repeated_tail(hypothesis: Hypothesis, table: PieceTable, ctc_text: str) -> Hypothesis:
    """Keeps one of the phrases that a looping decoder repeats to the end, unless CTC hears as many letters."""
    pieces = hypothesis.pieces
    if letter_count(table.decode(pieces)) <= EXCESS * letter_count(ctc_text):
        return hypothesis
    kept = len(pieces)
    for size in range(1, LONGEST_LOOP + 1):
        repeats = 1
        while pieces[-size * (repeats + 1) :][:size] == pieces[-size:] and len(pieces) >= size * (repeats + 1):
            repeats += 1
        if repeats > MOST_REPEATS:
            kept = min(kept, len(pieces) - size * (repeats - 1))
    return Hypothesis(pieces[:kept], hypothesis.scores[:kept])

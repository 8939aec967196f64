"""Greedy search: the best path of CTC, and the best next piece of the attention decoder with CTC as its witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder
from asr.search.draft import DraftedSteps
from asr.tokenizer import PieceTable

PIECES_PER_SECOND = 6.5  # nobody speaks faster for long
DIGIT_LETTERS = 4  # a digit is spoken as a word of about four letters
WITNESSED = 0.5  # share of the letters that CTC hears which must be written before the text may end


def ctc_greedy(log_probs: Tensor, blank: int = 0) -> list[int]:
    """Outputs of the best CTC path of `(positions, vocabulary)`: repeats collapsed, blanks taken out (Graves 2006)."""
    return [output for output in log_probs.argmax(-1).unique_consecutive().tolist() if output != blank]


def letter_count(text: str) -> int:
    """Letters of a text, a digit counting as a spoken word."""
    return sum(DIGIT_LETTERS if c.isdigit() else c.isalpha() for c in text)


@dataclass(frozen=True)
class Hypothesis:
    """What the decoder wrote: piece ids without start and end, and the log-probability of each."""

    pieces: list[int]
    scores: list[float]


@torch.no_grad()
def attention_greedy(
    decoder: AttentionDecoder,
    table: PieceTable,
    memory: Tensor,
    seconds: float,
    ctc_text: str,
    draft: Sequence[int] = (),
) -> Hypothesis:
    """The decoder's best piece at each step over one utterance.

    Args:
        decoder: the attention decoder.
        table: its pieces.
        memory: `(1, positions, d_model)`.
        seconds: length of the utterance; bounds the number of pieces.
        ctc_text: what greedy CTC hears: the text may not end before half of these letters are written.
        draft: pieces of an earlier hypothesis, which make it faster and change nothing.
    """
    end, limit = decoder.config.end, int(PIECES_PER_SECOND * seconds) + 2
    enough, written, scores = WITNESSED * letter_count(ctc_text), 0, []
    steps = DraftedSteps(decoder, decoder.start(memory, max_pieces=limit + 1), draft=draft)
    while len(steps.pieces) < limit:
        log_probs = steps.logits().float().log_softmax(-1)
        if written < enough:
            log_probs[end] = -torch.inf
        score, piece = log_probs.max(-1)
        if piece == end:
            break
        steps.write(int(piece))
        scores.append(float(score))
        written += letter_count(table.decode(steps.pieces[-1:]))
    return Hypothesis(steps.pieces, scores)

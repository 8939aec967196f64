"""When words were said: forced alignment of a text to CTC log-probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.text import normalise
from asr.tokenizer import CtcTokenizer


@dataclass(frozen=True)
class Span:
    """Positions `[start, end)` and the mean posterior of the aligned pieces (0 to 1)."""

    start: int
    end: int
    score: float


def align_words(words: Sequence[str], log_probs: Tensor, tokenizer: CtcTokenizer) -> list[Span]:
    """The span of each word in `log_probs` `(positions, vocabulary)`, in order and without overlap.

    The best CTC path through the words' pieces (torchaudio's `forced_align`). Where the words have more pieces than
    there are positions, they share the stretch evenly. A word without letters takes no time, after the word before it.
    """
    pieces = [tokenizer.encode(normalise(word)) for word in words]
    owner = [i for i, ids in enumerate(pieces) for _ in ids]
    targets = [piece for ids in pieces for piece in ids]
    size = log_probs.shape[0]
    if not targets or size == 0:
        return [Span(0, 0, 0.0) for _ in words]
    repeats = sum(a == b for a, b in itertools.pairwise(targets))
    if len(targets) + repeats > size:
        return [Span(size * i // len(words), size * (i + 1) // len(words), 0.0) for i in range(len(words))]
    from torchaudio.functional import forced_align, merge_tokens

    path, scores = forced_align(log_probs[None].float().cpu(), torch.tensor([targets]), blank=tokenizer.blank)
    tokens = merge_tokens(path[0], scores[0].exp(), blank=tokenizer.blank)
    spans: list[Span] = []
    for i in range(len(words)):
        mine = [token for token, word in zip(tokens, owner, strict=True) if word == i]
        if mine:
            spans.append(Span(mine[0].start, mine[-1].end, sum(t.score for t in mine) / len(mine)))
        else:
            at = spans[-1].end if spans else 0
            spans.append(Span(at, at, spans[-1].score if spans else 0.0))
    return spans

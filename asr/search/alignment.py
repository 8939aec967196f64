"""When words were said: forced alignment of a text to CTC log-probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asr.tokenizer import CtcTokenizer

QUIET = 0.1  # quantile of the positions' power that stands for the background
LOUDER = 4.0  # power ratio (6 dB) by which a word's sound is louder than the background
DEPTH = 0.01  # power ratio (20 dB) below its loudest position at which a word has ended
REACH = 25  # positions (0.6 s)


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
    pieces = [tokenizer.spell(word) for word in words]
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


def widen(spans: Sequence[Span], power: Sequence[float]) -> list[Span]:
    """Spans of words in order, of which CTC marks the middle only, widened to where their sound begins and ends.

    A word reaches as far as its sound does, to the quietest position between it and its neighbour where there is no
    pause, and no further than `REACH`.

    Args:
        spans: of `align_words`.
        power: mean square of each position.
    """
    size = len(power)
    if not size or not spans:
        return list(spans)
    quiet = sorted(power)[int(QUIET * size)]
    edges = [0, *(_between(a.end, b.start, power) for a, b in itertools.pairwise(spans)), size]
    wide = []
    for span, low, high in zip(spans, edges[:-1], edges[1:], strict=True):
        start, end = span.start, min(span.end, size)
        around = power[max(low, start - REACH) : min(high, end + REACH)]
        least = max(LOUDER * quiet, DEPTH * max(around, default=0.0))
        while start > max(low, span.start - REACH) and power[start - 1] > least:
            start -= 1
        while end < min(high, span.end + REACH) and power[end] > least:
            end += 1
        wide.append(Span(start, end, span.score) if span.end > span.start else span)
    return wide


def _between(end: int, start: int, power: Sequence[float]) -> int:
    """The quietest position of `[end, start)`, which parts two words; `end` where there is none."""
    return min(range(end, start), key=power.__getitem__, default=end)

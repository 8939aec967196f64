"""How often something was said that stands in a text several times in a row: as often as CTC bears it out.

An attention decoder miscounts what comes again and again, and sometimes goes round in circles. CTC does not count
either, but says how likely a text with one more or one fewer of a phrase is over the same sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from asr.search.alignment import align_words
from asr.search.ctc import log_likelihoods
from asr.search.hypothesis import Hypothesis
from asr.text import comparable, letter_count
from asr.tokenizer import CtcTokenizer, PieceTable

MORE = 3  # repeats at most that are put in where the decoder has left them out
FEWER, ONE_MORE = 6.0, 1.0  # nats by which a text must be likelier for each repeat that is taken out, or put in
KNOWN = 0.3  # mean score of a phrase, aligned with CTC, below which CTC does not know it and cannot count it
LETTERS_PER_SECOND = 20.0  # nobody says again and again what has more


@dataclass(frozen=True)
class Run:
    """Words `[start, start + size * count + rest)` that are `count` times a phrase of `size`, the last broken off."""

    start: int
    size: int
    count: int
    rest: int = 0


def find_runs(words: Sequence[str]) -> list[Run]:
    """Phrases that follow each other at least twice, the longest stretches first found, without overlap."""
    found: list[Run] = []
    at = 0
    while at < len(words):
        best = None
        for size in range(1, (len(words) - at) // 2 + 1):
            same = 0
            while at + size + same < len(words) and words[at + same] == words[at + size + same]:
                same += 1
            if same >= size and (best is None or same + size > best.size * best.count + best.rest):
                end = at + size + same == len(words)
                best = Run(at, size, 1 + same // size, same % size if end else 0)
        if best is None:
            at += 1
        else:
            found.append(best)
            at += best.size * best.count + best.rest
    return found


def settle_repeats(
    hypothesis: Hypothesis, table: PieceTable, log_probs: Tensor, tokenizer: CtcTokenizer, seconds: float
) -> Hypothesis:
    """The hypothesis with each phrase that is said several times in a row as often as CTC makes likely, or, where it
    does not know the phrase, at most as often as there is time for.

    Args:
        hypothesis: what the decoder wrote.
        table: its pieces.
        log_probs: CTC, `(positions, vocabulary)`.
        tokenizer: of CTC.
        seconds: length of the sound.
    """
    words = table.words(hypothesis.pieces)
    spoken = [text for text, _ in words]
    for run in reversed(find_runs([comparable(text) for text in spoken])):
        once = align_words(_with(spoken, run, 1), log_probs, tokenizer)[run.start : run.start + run.size]
        if sum(span.score for span in once) > KNOWN * run.size:
            texts = [_with(spoken, run, count) for count in range(1, run.count + MORE + 1)]
            likely = log_likelihoods(texts, log_probs, tokenizer)
            changes = [number - run.count for number in range(1, len(texts) + 1)]
            believed = [
                value - (ONE_MORE * change if change > 0 else -FEWER * change)
                for value, change in zip(likely, changes, strict=True)
            ]
            count = 1 + max(range(len(texts)), key=believed.__getitem__)
        else:
            letters = sum(map(letter_count, spoken[run.start : run.start + run.size]))
            count = min(run.count, max(1, int(LETTERS_PER_SECOND * seconds / max(1, letters))))
        words, spoken = _with(words, run, count), _with(spoken, run, count)
    pieces = [index for _, group in words for index in group]
    return Hypothesis([hypothesis.pieces[i] for i in pieces], [hypothesis.scores[i] for i in pieces])


def _with(words: list, run: Run, count: int) -> list:
    """The words with another count of a run's phrase."""
    first, end = run.start + run.size, run.start + run.size * run.count
    last = words[end - run.size : end]
    if count == run.count:
        return words
    kept = words[: first + run.size * (min(count, run.count) - 1)]
    return kept + last * max(0, count - run.count) + words[end + run.rest :]

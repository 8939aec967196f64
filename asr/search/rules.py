"""What an attention decoder may not write: small rules that see its scores, its pieces and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from asr.search.hypothesis import Hypothesis
from asr.text import comparable
from asr.tokenizer import PieceTable

PIECES_PER_SECOND = 6.5  # nobody speaks faster for long
WITNESSED = 0.5  # share of the letters that CTC hears which must be written before the text may end
REPEATED = 3  # words in a row


class Rule(Protocol):
    """Has its say at each step of one text, and when it has ended."""

    def filter(self, text: Hypothesis, scores: Tensor) -> None:
        """Changes the log-probabilities `(vocabulary,)` of what comes next, in place."""

    def ends(self, text: Hypothesis, piece: int) -> bool:
        """Whether the text ends instead of going on by a piece."""
        return False

    def kept(self, text: Hypothesis) -> int:
        """How many pieces of a text that has ended stay."""
        return len(text.pieces)


class Longest(Rule):
    """At most as many pieces as can be spoken in some seconds, and at most `most`."""

    def __init__(self, seconds: float, most: float = math.inf) -> None:
        self.pieces = longest_text(seconds) if most == math.inf else min(longest_text(seconds), most)

    def ends(self, text: Hypothesis, piece: int) -> bool:
        return len(text.pieces) >= self.pieces


def longest_text(seconds: float) -> int:
    """The most pieces that are written of so much sound."""
    return int(PIECES_PER_SECOND * seconds) + 2


def bounded(seconds: Sequence[float], rules: Sequence[Sequence[Rule]] = ()) -> list[list[Rule]]:
    """The rules of texts of so many seconds of sound each: `Longest`, and further ones."""
    return [[Longest(length), *own] for length, own in zip(seconds, rules or [()] * len(seconds), strict=True)]


class NoEarlyEnd(Rule):
    """The text does not end before a share of the letters that CTC hears is written.

    Some decoders end at once on spelled letters and strings of digits.
    """

    def __init__(self, end: int, letters: float) -> None:
        self.end, self.fewest = end, WITNESSED * letters

    def filter(self, text: Hypothesis, scores: Tensor) -> None:
        if text.letters < self.fewest:
            scores[self.end] = -math.inf


class MostLetters(Rule):
    """No more letters than so many."""

    def __init__(self, table: PieceTable, most: float) -> None:
        self.table, self.most = table, most

    def ends(self, text: Hypothesis, piece: int) -> bool:
        return text.letters + self.table.letters(piece) > self.most


class NoRepeats(Rule):
    """Words that stand in the text already are not written again, unless they are heard again.

    Args:
        table: the decoder's pieces.
        heard_again: given all words, whether the last `REPEATED` are.
        fixed: leading pieces that stay in any case.
    """

    def __init__(self, table: PieceTable, heard_again: Callable[[list[str]], bool], fixed: int = 0) -> None:
        self.table, self.heard_again, self.fixed = table, heard_again, fixed

    def ends(self, text: Hypothesis, piece: int) -> bool:
        return self.table.starts_word(piece) and self._repeated_from(text) is not None

    def kept(self, text: Hypothesis) -> int:
        again = self._repeated_from(text)
        return len(text.pieces) if again is None else max(again, self.fixed)

    def _repeated_from(self, text: Hypothesis) -> int | None:
        """The index of the piece from which on the last words have been said before and are not heard again."""
        words = self.table.words(text.pieces)
        spoken = [comparable(word) for word, _ in words]
        last = spoken[-REPEATED:]
        if all(spoken[end - REPEATED : end] != last for end in range(REPEATED, len(spoken))):
            return None
        return None if self.heard_again([word for word, _ in words]) else words[-REPEATED][1][0]

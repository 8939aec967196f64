"""Partials: the attention decoder's words while someone speaks, over the memory so far.

Its older part is revised as more becomes known (`asr.recognition.revision`).

After each chunk the last hypothesis is the draft: one forward pass checks its pieces against the longer memory, the
prefix on which decoder and draft agree is kept, and decoding goes on from there. What several updates in a row agree on
is stable and is never taken back (local agreement: Liu et al. 2020, "Low-latency sequence-to-sequence speech
recognition and translation by partial hypothesis selection").

An update takes a bounded number of passes, so that words never wait for one that has much to change: what it could not
check stands as it stood, until the next one.

A last word that the decoder is not sure of, words that CTC does not hear yet where they ought to be, unless the decoder
is very sure of them, and words that have more letters than CTC has heard so far wait until the next update says them
again: most would be taken back.

At the edge of a memory that breaks off, the decoder tends to say again what it has said. Three words that stand in the
hypothesis already and that CTC does not hear again, or more letters than CTC can have missed, end it there.
"""

from __future__ import annotations

import math
from itertools import dropwhile, takewhile
from typing import Protocol

import torch
from torch import Tensor

from asr.nn.decoder import DecoderState
from asr.nn.speech_model import SpeechModel
from asr.search.alignment import align_words
from asr.search.ctc import ctc_greedy
from asr.search.greedy import write
from asr.search.hotwords import Hotwords
from asr.search.hypothesis import Hypothesis
from asr.search.rules import REPEATED, Longest, MostLetters, NoEarlyEnd, NoRepeats, Rule
from asr.search.steps import DraftedSteps
from asr.text import letter_count

AGREEMENT = 4  # updates in a row that must have a piece in common for it to be stable
SURE = 0.7  # probability that each piece of the last word must have for it to be shown at once
SURE_UNHEARD = 0.9  # of a word that CTC does not hear
UNHEARD = 0.01  # mean posterior of an aligned word below which CTC does not hear it
MOST_PASSES = 8  # of the decoder in an update
HEARD_AGAIN = 0.3  # mean posterior of such words, aligned with CTC, from which on they are believed
PLAUSIBLE, PLAUSIBLE_MORE = 1.2, 3  # letters shown at once: so many for each that CTC hears, and so many more
LETTERS_HEARD, LETTERS_MORE = 2.0, 12  # letters written at most: so many for each that CTC hears, and so many more
MOST_PIECES = 512  # of one utterance; what comes after them waits for the final


class PartialHypothesis(Protocol):
    """The hypothesis of one open utterance, and the prefix of it that will not change."""

    @property
    def text(self) -> str: ...
    @property
    def stable(self) -> str: ...
    @property
    def pieces(self) -> list[int]:
        """The decoder's pieces of `text`, none where it has not read it."""

    def update(self, memory: Tensor, log_probs: Tensor) -> None:
        """Goes on over further positions: memory `(1, positions, d_model)`, CTC `(positions, vocabulary)`."""

    def revise(self, memory: Tensor, at: int) -> None:
        """Puts a better memory `(1, positions, d_model)` in place from position `at` of the utterance on."""


class CtcPartial:
    """Greedy CTC, for a machine that is too slow for the decoder. All words but the last are stable: outputs of CTC are
    never revised, so that the best path only grows, and nothing but its last word can become longer.

    Args:
        model: the model.
        before: what has been written of the utterance already; it stays.
    """

    def __init__(self, model: SpeechModel, before: str = "") -> None:
        self.model, self.before, self.text, self.stable = model, before, before, before
        self.pieces: list[int] = []
        self._log_probs: list[Tensor] = []

    def update(self, memory: Tensor, log_probs: Tensor) -> None:
        self._log_probs.append(log_probs)
        heard = self.model.tokenizer.decode(ctc_greedy(torch.cat(self._log_probs)))
        self.text = f"{self.before} {heard}".strip()
        self.stable = f"{self.before} {heard.rpartition(' ')[0]}".strip()

    def revise(self, memory: Tensor, at: int) -> None:
        """Greedy CTC reads no memory."""


class DecoderPartial:
    """The attention decoder's hypothesis.

    Args:
        model: the model.
        hotwords: what it leans towards.
    """

    def __init__(self, model: SpeechModel, hotwords: Hotwords | None = None) -> None:
        self.model, self._hotwords = model, hotwords
        self._spotter = None if hotwords is None else hotwords.spotter()
        self.text, self.stable = "", ""
        self.pieces: list[int] = []
        self._history: list[list[int]] = []  # the last hypotheses: ids without start and end
        self._agreed = 0  # pieces that will not change
        self._log_probs: list[Tensor] = []
        self._state: DecoderState | None = None
        self._positions = 0

    def update(self, memory: Tensor, log_probs: Tensor) -> None:
        decoder = self.model.decoder
        if self._state is None:
            self._state = decoder.start(memory, max_pieces=MOST_PIECES)
        else:
            decoder.extend(memory, self._state)
        self._positions += memory.shape[1]
        self._log_probs.append(log_probs)
        if self._spotter is not None:
            self._spotter.accept(log_probs)
        letters = letter_count(self.model.tokenizer.decode(ctc_greedy(torch.cat(self._log_probs))))
        before = self.pieces
        checked, rest, chances = self._decode(letters)
        pieces = self.pieces = checked + rest
        self._history = [*self._history, checked][-AGREEMENT:]
        if len(self._history) == AGREEMENT:
            common = takewhile(lambda same: len(set(same)) == 1, zip(*self._history, strict=False))
            self._agreed = max(self._agreed, sum(1 for _ in common))
        table = self.model.decoder_pieces
        said = max(self._agreed, _in_common(pieces, before))
        self.text = table.decode(pieces[: self._doubtful(pieces, chances, said, letters, whole=False)])
        # A word is whole when the piece that begins the next one is agreed on too.
        starts = [group[0] for _, group in table.words(pieces) if group[0] < self._agreed]
        self.stable = table.decode(pieces[: starts[-1]]) if starts else ""

    def revise(self, memory: Tensor, at: int) -> None:
        if self._state is not None:
            self.model.decoder.revise(memory, at, self._state)

    def _doubtful(self, pieces: list[int], chances: list[float], said: int, letters: int, whole: bool) -> int | None:
        """The first piece of the first word that is not shown yet: the words from there on are in doubt.

        Args:
            pieces: the hypothesis, or a beginning of it.
            chances: the probability of each.
            said: leading pieces that are in no doubt, as they have been said before.
            letters: that CTC hears.
            whole: another word follows the last one.
        """
        words, most, written = self.model.decoder_pieces.words(pieces), PLAUSIBLE * letters + PLAUSIBLE_MORE, 0
        if not words or words[-1][1][-1] < said:
            return None
        spans = align_words([text for text, _ in words], torch.cat(self._log_probs), self.model.tokenizer)
        for number, ((text, group), span) in enumerate(zip(words, spans, strict=True), start=1):
            written += letter_count(text)
            last = number == len(words) and not whole
            enough = SURE_UNHEARD if span.score < UNHEARD else SURE if last else 0
            if group[-1] >= said and (written > most or min(chances[piece] for piece in group) < enough):
                return group[0]
        return None

    def _decode(self, letters: int) -> tuple[list[int], list[int], list[float]]:
        """The hypothesis that starts with the agreed pieces, what is left over of the last one, its draft, and the
        probability of each piece of both, 1 where it was not asked for.

        Words are left over where `MOST_PASSES` did not suffice to check them.
        """
        decoder, table = self.model.decoder, self.model.decoder_pieces
        longest = Longest(self._positions * self.model.position_seconds, MOST_PIECES - 1)
        fixed = self.pieces[: self._agreed]
        text = Hypothesis(list(fixed), [0.0] * len(fixed), sum(map(table.letters, fixed)))
        steps = DraftedSteps(decoder, self._state, fixed, self.pieces, MOST_PASSES)
        rules = [
            longest,
            NoEarlyEnd(decoder.config.end, letters),
            MostLetters(table, LETTERS_HEARD * letters + LETTERS_MORE),
            NoRepeats(table, self._heard_again, self._agreed),
            _UntilInDoubt(self, letters),
        ]
        if self._spotter is not None:
            rules.append(self._hotwords.rule(self._hotwords.spotted(self._spotter)))
        write(steps, table, decoder.config.end, [text], [rules])
        rest = [] if steps.ended else steps.unchecked
        if rest and steps.lost:  # from its next word on
            rest = list(dropwhile(lambda piece: not table.starts_word(piece), rest))
        rest = rest[: longest.pieces - len(text.pieces)]
        return text.pieces, rest, self._chances(text) + [1.0] * len(rest)

    def _chances(self, text: Hypothesis) -> list[float]:
        """The probability of each piece that has letters, 1 of the others."""
        table, scored = self.model.decoder_pieces, zip(text.pieces, text.scores, strict=True)
        return [math.exp(score) if table.letters(piece) else 1.0 for piece, score in scored]

    def _heard_again(self, words: list[str]) -> bool:
        """Whether CTC hears the last of words where they stand, although they have been said before."""
        spans = align_words(words, torch.cat(self._log_probs), self.model.tokenizer)
        return sum(span.score for span in spans[-REPEATED:]) > HEARD_AGAIN * REPEATED


class _UntilInDoubt(Rule):
    """Nothing is written after a word that is not shown: it would not be shown either."""

    def __init__(self, partial: DecoderPartial, letters: int) -> None:
        self._partial, self._letters, self._before = partial, letters, partial.pieces

    def ends(self, text: Hypothesis, piece: int) -> bool:
        partial = self._partial
        if not partial.model.decoder_pieces.starts_word(piece):
            return False
        said = max(partial._agreed, _in_common(text.pieces, self._before))
        chances = partial._chances(text)
        return partial._doubtful(text.pieces, chances, said, self._letters, whole=True) is not None


def _in_common(one: list[int], other: list[int]) -> int:
    """How many leading pieces two hypotheses have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

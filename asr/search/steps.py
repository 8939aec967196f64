"""Where the attention decoder's answers come from, piece after piece: one text with a draft, or many texts in step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder, DecoderState

LONGEST_GUESS = 16  # pieces that are checked at once
NEAR = 4  # pieces around the expected place of the draft in which it is taken up again after a difference
CROWDED = 0.6  # share of rows still being written below which the others are taken out


class Steps(Protocol):
    """What follows the pieces that were written so far, for each text that is still being written.

    Attributes:
        rows: the texts that are, by number.
    """

    @property
    def rows(self) -> list[int]: ...

    def logits(self) -> Tensor:
        """Logits `(rows, vocabulary)` of what comes next."""

    def write(self, pieces: Sequence[int | None]) -> None:
        """Goes on by a piece in each of `rows`; None ends that text."""


class DraftedSteps:
    """One text, number 0, of which an earlier hypothesis, the draft, says what probably comes next.

    A pass over n guesses takes little longer than one over a single piece, and gives what follows each of them; the
    guesses that turn out right are steps saved. What is written is the same as without a draft (Leviathan et al. 2023,
    "Fast inference from transformers via speculative decoding", with a text in the place of the small model).

    Args:
        decoder: the attention decoder.
        state: one row; it may hold the start piece and any beginning of `pieces`. Changed in place.
        pieces: what is written already, without the start piece.
        draft: an earlier hypothesis of the whole text.
        most_passes: how often the decoder may be asked; after that nothing is being written any more.

    Attributes:
        pieces: what is written.
        passes: how often the decoder has been asked.
        lost: the last piece was none of the draft's; where it goes on is a guess.
        ended: the text is complete.
    """

    def __init__(
        self,
        decoder: AttentionDecoder,
        state: DecoderState,
        pieces: Sequence[int] = (),
        draft: Sequence[int] = (),
        most_passes: float = float("inf"),
    ) -> None:
        self.pieces = list(pieces)
        self.passes, self.ended = 0, False
        self._most_passes = most_passes
        self._decoder, self._state, self._draft = decoder, state, list(draft)
        self._next = len(self.pieces)  # place in the draft
        self.lost = False
        self._guesses: list[int] = []
        self._rows: Tensor | None = None  # logits after the last written piece and after each guess
        self._row = 0

    @property
    def rows(self) -> list[int]:
        return [] if self.ended or (self._rows is None and self.passes >= self._most_passes) else [0]

    @property
    def unchecked(self) -> list[int]:
        """The rest of the draft, from where it goes on after `pieces`."""
        return self._draft[self._next :]

    def logits(self) -> Tensor:
        if self._rows is None:
            state = self._state
            state.truncate(len(self.pieces))
            fed = [self._decoder.config.start, *self.pieces][state.written :]
            room = state.cache.room - state.written - len(fed)
            longest = 0 if self.lost else min(LONGEST_GUESS, room)
            self._guesses = self._draft[self._next : self._next + longest]
            device = self._decoder.embedding.weight.device
            self.passes += 1
            logits, _ = self._decoder(torch.tensor([fed + self._guesses], device=device), state)
            self._rows, self._row = logits[0, len(fed) - 1 :], 0
        return self._rows[self._row : self._row + 1]

    def write(self, pieces: Sequence[int | None]) -> None:
        (piece,) = pieces
        if piece is None:
            self.ended = True
            return
        guessed = self._row < len(self._guesses) and self._guesses[self._row] == piece
        self._row += 1
        if not guessed:
            self._rows = None
        self.pieces.append(piece)
        self._follow(piece)

    def _follow(self, piece: int) -> None:
        """Finds the place in the draft after a piece; after the first that differs, it waits for the next."""
        at, found = self._next, None
        nearby = range(max(0, at - NEAR), min(len(self._draft), at + NEAR + 1)) if self.lost else [at]
        for place in sorted(nearby, key=lambda i: abs(i - at)):
            if self._draft[place : place + 1] == [piece]:
                found = place
                break
        self.lost = found is None
        self._next = 1 + (at if found is None else found)


class RowSteps:
    """Many texts at once, one piece each a step.

    Args:
        decoder: the attention decoder.
        state: a row for each text, nothing written yet. Changed in place.

    Attributes:
        rows: as in `Steps`.
    """

    def __init__(self, decoder: AttentionDecoder, state: DecoderState) -> None:
        self.rows = list(range(state.rows))
        self._decoder, self._state = decoder, state
        self._texts = list(self.rows)  # the text that each row of the state is of
        self._last = [decoder.config.start] * len(self.rows)

    def logits(self) -> Tensor:
        if len(self.rows) <= CROWDED * len(self._texts):
            kept = [place for place, text in enumerate(self._texts) if text in self.rows]
            self._state = self._state.select(kept)
            self._texts, self._last = ([values[i] for i in kept] for values in (self._texts, self._last))
        device = self._decoder.embedding.weight.device
        logits, self._state = self._decoder(torch.tensor(self._last, device=device)[:, None], self._state)
        places = [place for place, text in enumerate(self._texts) if text in self.rows]
        return logits[:, -1] if len(places) == len(self._texts) else logits[places, -1]

    def write(self, pieces: Sequence[int | None]) -> None:
        written = dict(zip(self.rows, pieces, strict=True))
        self._last = [
            last if written.get(text) is None else written[text]
            for text, last in zip(self._texts, self._last, strict=True)
        ]
        self.rows = [row for row in self.rows if written[row] is not None]

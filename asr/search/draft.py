"""Greedy steps of the attention decoder that check several guessed pieces in one pass.

An earlier hypothesis, the draft, says what probably comes next. A pass over n guesses takes little longer than one over
a single piece, and gives what follows each of them; the guesses that turn out right are steps saved. What is written is
the same as without a draft (Leviathan et al. 2023, "Fast inference from transformers via speculative decoding", with a
text in the place of the small model).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from asr.nn.decoder import AttentionDecoder, DecoderState

LONGEST_GUESS = 16  # pieces that are checked at once
NEAR = 4  # pieces around the expected place of the draft in which it is taken up again after a difference


class DraftedSteps:
    """What follows the pieces written so far, piece after piece, over one utterance.

    Args:
        decoder: the attention decoder.
        state: one row; it may hold the start piece and any beginning of `pieces`. Changed in place.
        pieces: what is written already, without the start piece.
        draft: an earlier hypothesis of the whole text.

    Attributes:
        pieces: what is written.
        passes: how often the decoder has been asked.
        lost: the last piece was none of the draft's; where it goes on is a guess.
    """

    def __init__(
        self, decoder: AttentionDecoder, state: DecoderState, pieces: Sequence[int] = (), draft: Sequence[int] = ()
    ) -> None:
        self.pieces = list(pieces)
        self.passes = 0
        self._decoder, self._state, self._draft = decoder, state, list(draft)
        self._next = len(self.pieces)  # place in the draft
        self.lost = False
        self._guesses: list[int] = []
        self._rows: Tensor | None = None  # logits after the last written piece and after each guess
        self._row = 0

    @property
    def asks(self) -> bool:
        """Whether the next logits take a pass of the decoder: no guess stands where they follow."""
        return self._rows is None

    @property
    def unchecked(self) -> list[int]:
        """The rest of the draft, from where it goes on after `pieces`."""
        return self._draft[self._next :]

    def logits(self) -> Tensor:
        """Logits `(vocabulary,)` of what follows `pieces`."""
        if self._rows is None:
            state = self._state
            state.truncate(len(self.pieces))
            fed = [self._decoder.config.start, *self.pieces][state.written :]
            room = state.cache.capacity - state.written - len(fed)
            longest = 0 if self.lost else min(LONGEST_GUESS, room)
            self._guesses = self._draft[self._next : self._next + longest]
            device = self._decoder.embedding.weight.device
            self.passes += 1
            logits, _ = self._decoder(torch.tensor([fed + self._guesses], device=device), state)
            self._rows, self._row = logits[0, len(fed) - 1 :], 0
        return self._rows[self._row]

    def write(self, piece: int) -> None:
        """Goes on by a piece."""
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

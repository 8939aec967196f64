"""Partials: the attention decoder's words while someone speaks, over the memory so far.

After each chunk the last hypothesis is the draft: one forward pass checks its pieces against the longer memory, the
prefix on which decoder and draft agree is kept, and decoding goes on from there. What several updates in a row agree on
is stable and is never taken back (local agreement: Liu et al. 2020, "Low-latency sequence-to-sequence speech
recognition and translation by partial hypothesis selection").

At the edge of a memory that breaks off, the decoder tends to say again what it has said. Three words that stand in the
hypothesis already, or more letters than CTC can have missed, end it there.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor

from asr.decoder import DecoderState
from asr.model import SpeechModel
from asr.search.greedy import PIECES_PER_SECOND, WITNESSED, ctc_greedy, letter_count
from asr.text import normalise

AGREEMENT = 4  # updates in a row that must have a piece in common for it to be stable
REPEATED = 3  # words in a row
LETTERS_HEARD, LETTERS_MORE = 2.0, 12  # letters written at most: so many for each that CTC hears, and so many more
MOST_PIECES = 512  # of one utterance; what comes after them waits for the final


class PartialHypothesis(Protocol):
    """The hypothesis of one open utterance, and the prefix of it that will not change."""

    @property
    def text(self) -> str: ...
    @property
    def stable(self) -> str: ...
    def update(self, memory: Tensor, log_probs: Tensor) -> None:
        """Goes on over further positions: memory `(1, positions, d_model)`, CTC `(positions, vocabulary)`."""


class CtcPartial:
    """Greedy CTC, for a machine that is too slow for the decoder: all words are stable but the last."""

    def __init__(self, model: SpeechModel) -> None:
        self.model, self.text, self.stable = model, "", ""
        self._log_probs: list[Tensor] = []

    def update(self, memory: Tensor, log_probs: Tensor) -> None:
        self._log_probs.append(log_probs)
        self.text = self.model.tokenizer.decode(ctc_greedy(torch.cat(self._log_probs)))
        self.stable = self.text.rpartition(" ")[0]


class DecoderPartial:
    """The attention decoder's hypothesis."""

    def __init__(self, model: SpeechModel) -> None:
        self.model = model
        self.text, self.stable = "", ""
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
        letters = letter_count(self.model.tokenizer.decode(ctc_greedy(torch.cat(self._log_probs))))
        draft = self._history[-1] if self._history else []
        pieces = self._decode(draft, WITNESSED * letters, LETTERS_HEARD * letters + LETTERS_MORE)
        self._history = [*self._history, pieces][-AGREEMENT:]
        if len(self._history) == AGREEMENT:
            common = takewhile(lambda same: len(set(same)) == 1, zip(*self._history, strict=False))
            self._agreed = max(self._agreed, sum(1 for _ in common))
        table = self.model.decoder_pieces
        self.text = table.decode(pieces)
        # A word is whole when the piece that begins the next one is agreed on too.
        starts = [group[0] for _, group in table.words(pieces) if group[0] < self._agreed]
        self.stable = table.decode(pieces[: starts[-1]]) if starts else ""

    def _decode(self, draft: list[int], fewest: float, most: float) -> list[int]:
        """The hypothesis that starts with the agreed pieces, then with as much of the draft as still holds.

        It does not end before `fewest` letters are written, and `most` are not exceeded.
        """
        decoder, state = self.model.decoder, self._state
        end = decoder.config.end
        limit = min(int(PIECES_PER_SECOND * self._positions * self.model.position_seconds) + 2, MOST_PIECES - 1)
        # The cache holds the start piece and the stable pieces; their states stay as they were.
        state.truncate(min(state.written, self._agreed))
        known = [decoder.config.start, *draft]
        logits = self._forward(known[state.written :])
        best = logits.argmax(-1).tolist()  # best[i] follows known[first + i]
        first = len(known) - len(best)
        pieces = list(draft[:first])
        for place, piece in enumerate(draft[first:]):
            if best[place] != piece:
                break
            pieces.append(piece)
        following = best[len(pieces) - first]
        state.truncate(len(pieces) + 1)
        table = self.model.decoder_pieces
        if following == end and letter_count(table.decode(pieces)) < fewest:
            following = self._best_but_end(logits[len(pieces) - first])
        while following != end and len(pieces) < limit:
            pieces.append(following)
            written = letter_count(table.decode(pieces))
            if written > most:
                pieces.pop()
                break
            if table.starts_word(following) and (again := self._repeated_from(pieces[:-1])) is not None:
                return pieces[: max(again, self._agreed)]
            logits = self._forward([following])[-1]
            following = int(logits.argmax()) if written >= fewest else self._best_but_end(logits)
        again = self._repeated_from(pieces)
        return pieces if again is None else pieces[: max(again, self._agreed)]

    def _best_but_end(self, logits: Tensor) -> int:
        """The best piece `()` of logits `(vocabulary,)` that is not the end."""
        end = self.model.decoder.config.end
        return next(piece for piece in logits.topk(2).indices.tolist() if piece != end)

    def _repeated_from(self, pieces: list[int]) -> int | None:
        """The index of the piece from which on the last words have been said before, None if they have not."""
        words = [(normalise(text), group[0]) for text, group in self.model.decoder_pieces.words(pieces)]
        spoken = [word for word, _ in words]
        last = spoken[-REPEATED:]
        for end in range(REPEATED, len(spoken)):
            if spoken[end - REPEATED : end] == last:
                return words[-REPEATED][1]
        return None

    def _forward(self, pieces: list[int]) -> Tensor:
        """Logits `(pieces, vocabulary)` of what follows each of the pieces."""
        device = self.model.encoder.ctc.weight.device
        logits, self._state = self.model.decoder(torch.tensor([pieces], device=device), self._state)
        return logits[0]

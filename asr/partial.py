"""Partials: the attention decoder's words while someone speaks, over the memory so far.

After each chunk the last hypothesis is the draft: one forward pass checks its pieces against the longer memory, the
prefix on which decoder and draft agree is kept, and decoding goes on from there. What two updates in a row agree on is
stable and is never taken back (local agreement: Liu et al. 2020, "Low-latency sequence-to-sequence speech recognition").
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.decoder import DecoderState
from asr.model import SpeechModel
from asr.search.greedy import PIECES_PER_SECOND

MOST_PIECES = 512  # of one utterance; what comes after them waits for the final


class PartialDecoder:
    """The hypothesis of one open utterance.

    Attributes:
        pieces: the hypothesis, ids without start and end.
        stable: how many of them will not change.
    """

    def __init__(self, model: SpeechModel) -> None:
        self.model = model
        self.pieces: list[int] = []
        self.stable = 0
        self._state: DecoderState | None = None
        self._positions = 0

    @property
    def text(self) -> str:
        return self.model.decoder_pieces.decode(self.pieces)

    @property
    def stable_text(self) -> str:
        """The prefix of `text` that will not change: whole pieces that two updates agreed on."""
        return self.model.decoder_pieces.decode(self.pieces[: self.stable])

    def update(self, memory: Tensor) -> None:
        """Goes on over further memory `(1, positions, d_model)` of the utterance."""
        decoder = self.model.decoder
        if self._state is None:
            self._state = decoder.start(memory, max_pieces=MOST_PIECES)
        else:
            decoder.extend(memory, self._state)
        self._positions += memory.shape[1]
        previous = self.pieces
        self.pieces = self._decode(previous)
        agreed = 0
        for old, new in zip(previous, self.pieces, strict=False):
            if old != new:
                break
            agreed += 1
        self.stable = max(self.stable, agreed)

    def _decode(self, draft: list[int]) -> list[int]:
        """The hypothesis that starts with the stable pieces, then with as much of the draft as still holds."""
        decoder, state = self.model.decoder, self._state
        end = decoder.config.end
        limit = min(int(PIECES_PER_SECOND * self._positions * self.model.position_seconds) + 2, MOST_PIECES - 1)
        # The cache holds the start piece and the stable pieces; their states stay as they were.
        state.truncate(min(state.written, self.stable))
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
        while following != end and len(pieces) < limit:
            pieces.append(following)
            following = int(self._forward([following])[-1].argmax())
        return pieces

    def _forward(self, pieces: list[int]) -> Tensor:
        """Logits `(pieces, vocabulary)` of what follows each of the pieces."""
        device = self.model.encoder.ctc.weight.device
        logits, self._state = self.model.decoder(torch.tensor([pieces], device=device), self._state)
        return logits[0]

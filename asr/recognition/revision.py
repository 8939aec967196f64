"""The memory of a stream once more, up to a second later, made of larger chunks that see further into the future.

What the encoder says of a word gets better with what is known of its future, and partials stand on the screen for
seconds: their older words are read from this memory. An encoder that runs twice, fast and then better, is the idea of
cascaded encoders (Narayanan et al. 2021, "Cascaded encoders for unifying streaming and non-streaming ASR"), here with
the same weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.nn.speech_model import SpeechModel

CHUNK, LOOK_AHEAD = 27, 27  # positions: 0.65 s each


class Revision:
    """The revised memory of one stream, from where it is still needed on.

    Args:
        model: the model.
    """

    def __init__(self, model: SpeechModel) -> None:
        self._model, self._state = model, model.start(chunk=CHUNK, look_ahead=LOOK_AHEAD)
        self._memory = model.encoder.ctc.weight.new_zeros(1, 0, model.config.encoder.d_model)
        self._base = 0  # position at which it begins

    def accept(self, samples: Tensor, *, final: bool = False) -> None:
        """The next samples `(1, time)`."""
        output, self._state = self._model(samples, self._state, final=final, ctc=False)
        self._memory = torch.cat([self._memory, output.memory], 1)

    def until(self, heard: int) -> int:
        """The position up to which the memory is revised when `heard` positions of sound are there."""
        return max(0, heard - LOOK_AHEAD) // CHUNK * CHUNK

    def between(self, start: int, end: int) -> Tensor:
        """Revised memory `(1, end - start, d_model)` of positions `[start, end)`."""
        return self._memory[:, start - self._base : end - self._base]

    def forget(self, position: int) -> None:
        """Lets go of what lies before a position."""
        drop = min(position - self._base, self._memory.shape[1])
        if drop > 0:
            self._memory = self._memory[:, drop:].clone()
            self._base += drop

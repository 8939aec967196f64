"""The memory of a stream once more, up to a second later, made of larger chunks that see further into the future.

What the encoder says of a word gets better with what is known of its future, and partials stand on the screen for
seconds: their older words are read from this memory. An encoder that runs twice, fast and then better, is the idea of
cascaded encoders (Narayanan et al. 2021, "Cascaded encoders for unifying streaming and non-streaming ASR"), here with
the same weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.nn.encoder import SUBSAMPLING
from asr.nn.speech_model import SpeechModel
from asr.recognition.track import Track

CHUNK, LOOK_AHEAD = 27, 27  # positions: 0.65 s each


class Revision:
    """The revised memory of one stream, from where it is still needed on.

    Args:
        model: the model.
        start: the position of the stream at which it begins.
    """

    def __init__(self, model: SpeechModel, start: int = 0) -> None:
        self._model, self._state = model, model.start(chunk=CHUNK, look_ahead=LOOK_AHEAD)
        self._start = self._heard = start
        self.memory = Track(torch.zeros(0, model.config.encoder.d_model, device=model.device), start)

    def hear(self, log_power: Tensor, start: int) -> None:
        """Frames `(1, time, mels)` of log10 power from position `start` on, of which the first may be known."""
        fresh = log_power[:, (self._heard - start) * SUBSAMPLING :]
        self._heard += fresh.shape[1] // SUBSAMPLING
        chunks, self._state = self._model.advance(fresh, self._state, ctc=False)
        for chunk in chunks:
            self.memory.append(chunk.memory[0])

    def until(self, heard: int) -> int:
        """The position up to which the memory is revised when `heard` positions of sound are there."""
        return self._start + max(0, heard - self._start - LOOK_AHEAD) // CHUNK * CHUNK

"""How a stream is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import EndpointRules
from asr.search.hotwords import Hotword


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is decoded.

    Where nobody reads the words of a first pass, neither as partials nor as finals, there is none: the gate says when
    utterances begin and end, and each is encoded once.

    Attributes:
        chunk_ms: milliseconds that are emitted at a time.
        look_ahead_ms: milliseconds after each chunk that it may see.
        second_pass: finals are read again by the attention decoder; off: finals are the greedy CTC text.
        partials: what is said of the open utterance after each chunk: `off`: nothing; `decoder`: what the attention
            decoder reads in the memory so far; `ctc`: greedy CTC, for slow machines; `auto`: the decoder until the
            machine turns out too slow, then CTC.
        endpoint: when utterances end; None: the whole stream is one utterance.
        vad: a gate tells speech from noise: noise neither keeps utterances open nor becomes words.
        hotwords: words and phrases that are likelier than others, in partials and finals of the attention decoder.
    """

    chunk_ms: float = 320
    look_ahead_ms: float = 320
    second_pass: bool = True
    partials: Literal["off", "auto", "decoder", "ctc"] = "off"
    endpoint: EndpointRules | None = field(default_factory=EndpointRules)
    vad: bool = False
    hotwords: tuple[Hotword, ...] = ()

    @property
    def first_pass(self) -> bool:
        """Whether words are read while an utterance is open, or from what was encoded then."""
        return self.partials != "off" or not self.second_pass

    def positions(self, model: SpeechModel) -> tuple[int, int]:
        """Chunk and look-ahead in positions of a model."""
        return max(1, model.positions(self.chunk_ms)), model.positions(self.look_ahead_ms)


RECORDED = StreamOptions(chunk_ms=640)  # for recordings: nobody waits for their words
READ_TOGETHER = 8  # utterances of a recording

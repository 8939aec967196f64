"""How a stream is decoded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from asr.audio.samples import is_number
from asr.errors import ConfigError
from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import EndpointRules
from asr.search.hotwords import Hotword, as_hotword
from asr.writing.rewriting import Writing

Partials = Literal["off", "auto", "decoder", "ctc"]


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
        beams: texts that are followed at a time where the decoder's best one has a doubtful piece; 1 = never more.
        hotwords: words and phrases that are likelier than others, in partials and finals of the attention decoder;
            a string is one as `parse_hotword` reads it.
        writing: numbers, capitals and marks in what is said.

    Raises:
        ConfigError: one of them has an impossible value.
    """

    chunk_ms: float = 320
    look_ahead_ms: float = 320
    second_pass: bool = True
    partials: Partials = "off"
    endpoint: EndpointRules | None = field(default_factory=EndpointRules)
    vad: bool = False
    beams: int = 4
    hotwords: Iterable[Hotword | str] = ()
    writing: Writing = field(default_factory=Writing)

    def __post_init__(self) -> None:
        for name in ("chunk_ms", "look_ahead_ms"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < math.inf:
                raise ConfigError(f"{name}: must be milliseconds, at least 0, not {value!r}")
        for name in ("second_pass", "vad"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}: must be True or False, not {getattr(self, name)!r}")
        if not isinstance(self.beams, int) or isinstance(self.beams, bool) or not 1 <= self.beams <= MOST_BEAMS:
            raise ConfigError(f"beams: must be a whole number from 1 to {MOST_BEAMS}, not {self.beams!r}")
        if self.partials not in get_args(Partials):
            raise ConfigError(f"partials: must be one of {', '.join(get_args(Partials))}, not {self.partials!r}")
        if not isinstance(self.endpoint, EndpointRules | None):
            raise ConfigError(f"endpoint: must be EndpointRules, or None, not {self.endpoint!r}")
        if isinstance(self.hotwords, str) or not isinstance(self.hotwords, Iterable):
            raise ConfigError(f"hotwords: must be a list of them, not {self.hotwords!r}")
        if not isinstance(self.writing, Writing):
            raise ConfigError(f"writing: must be Writing, not {self.writing!r}")
        object.__setattr__(self, "hotwords", tuple(map(as_hotword, self.hotwords)))

    @property
    def first_pass(self) -> bool:
        """Whether words are read while an utterance is open, or from what was encoded then."""
        return self.partials != "off" or not self.second_pass

    def positions(self, model: SpeechModel) -> tuple[int, int]:
        """Chunk and look-ahead in positions of a model."""
        return max(1, model.positions(self.chunk_ms)), model.positions(self.look_ahead_ms)


def check_options(options: Any) -> None:
    """ConfigError where these are no options."""
    if not isinstance(options, StreamOptions):
        raise ConfigError(f"options: must be StreamOptions, not {options!r}")


MOST_BEAMS = 16
RECORDED = StreamOptions(chunk_ms=640)  # for recordings: nobody waits for their words
READ_TOGETHER = 8  # utterances of a recording

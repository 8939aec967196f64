"""Raw samples without a header, as `arecord -t raw` or `ffmpeg -f s16le` write them."""

from __future__ import annotations

from dataclasses import dataclass

from asr.audio.samples import MOST_CHANNELS, check_rate
from asr.errors import AudioError

CODINGS = (
    *("s8", "u8", "s16le", "s16be", "s24le", "s24be", "s32le", "s32be"),
    *("f32le", "f32be", "f64le", "f64be", "mulaw", "alaw"),
)


@dataclass(frozen=True)
class RawFormat:
    """What a header would have said.

    Attributes:
        coding: one of `CODINGS`, ffmpeg's names: sign, bits and the order of the bytes.
        rate: hertz.
        channels: how many; their samples alternate.

    Raises:
        AudioError: no such coding, rate or number of channels.
    """

    coding: str
    rate: int = 16000
    channels: int = 1

    def __post_init__(self) -> None:
        if self.coding not in CODINGS:
            raise AudioError(f"no coding {self.coding} of raw samples: choose of {', '.join(CODINGS)}")
        check_rate(self.rate)
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise AudioError(f"{self.channels} channels: raw samples have 1 to {MOST_CHANNELS}")

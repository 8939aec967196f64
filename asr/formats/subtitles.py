"""Subtitles: SubRip (SRT) and WebVTT (https://www.w3.org/TR/webvtt1/)."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from typing import TextIO

from asr.events import Event, Final, Word
from asr.formats.cues import Cue, make_cues
from asr.formats.writers import Writer, channel_prefix


class _SubtitleWriter(Writer):
    """Cues can be broken well only when all words are known: everything is written at the end of the input."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self._utterances: dict[int | None, list[tuple[Word, ...]]] = defaultdict(list)

    def begin(self, name: str) -> None:
        self._utterances.clear()

    def event(self, event: Event, channel: int | None = None) -> None:
        if isinstance(event, Final):
            self._utterances[channel].append(event.words)

    def end(self, seconds: float | None = None) -> None:
        cues = [
            cue
            for channel, utterances in self._utterances.items()
            for cue in make_cues(utterances, channel_prefix(channel), seconds)
        ]
        self._write(sorted(cues, key=lambda cue: (cue.start, cue.end)))
        self.out.flush()

    @abstractmethod
    def _write(self, cues: list[Cue]) -> None: ...


class SrtWriter(_SubtitleWriter):
    """Numbered cues with a comma before the milliseconds."""

    def _write(self, cues: list[Cue]) -> None:
        for number, cue in enumerate(cues, start=1):
            times = f"{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}"
            print(number, times, "\n".join(cue.lines).replace("-->", "->"), "", sep="\n", file=self.out)


class VttWriter(_SubtitleWriter):
    """WebVTT: a heading, a full stop before the milliseconds, and `&`, `<`, `>` escaped."""

    def _write(self, cues: list[Cue]) -> None:
        print("WEBVTT\n", file=self.out)
        for cue in cues:
            text = "\n".join(cue.lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            print(f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}", text, "", sep="\n", file=self.out)


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(1000 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"

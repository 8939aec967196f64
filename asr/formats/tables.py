"""Formats of one line a word (CTM) or an utterance (TSV)."""

from __future__ import annotations

import re
from typing import TextIO

from asr.events import Event, Final
from asr.formats.writers import Writer, channel_prefix


class CtmWriter(Writer):
    """NIST's conversation time marks: recording, channel, start and duration in seconds, word, confidence."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.name = out, ""

    def begin(self, name: str) -> None:
        self.name = re.sub(r"\s+", "_", re.sub(r"(?<=.)\.[^./]*$", "", name))

    def event(self, event: Event, channel: int | None = None) -> None:
        if not isinstance(event, Final):
            return
        for word in event.words:
            times = f"{word.start:.3f} {max(0.0, word.end - word.start):.3f}"
            print(f"{self.name} {channel or 1} {times} {word.text} {word.confidence:.3f}", file=self.out)
        self.out.flush()


class TsvWriter(Writer):
    """A table of utterances as Whisper's tools write it: start and end in milliseconds, text; a heading once."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.first = out, True

    def begin(self, name: str) -> None:
        if self.first:
            print("start\tend\ttext", file=self.out)
        self.first = False

    def event(self, event: Event, channel: int | None = None) -> None:
        if isinstance(event, Final):
            text = re.sub(r"\s+", " ", event.text)
            line = f"{round(1000 * event.start)}\t{round(1000 * event.end)}\t{channel_prefix(channel)}{text}"
            print(line, file=self.out, flush=True)

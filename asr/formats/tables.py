"""Formats of one line a word (CTM) or an utterance (TSV)."""

from __future__ import annotations

import re
from typing import TextIO

from asr.events import Event, Final, Word
from asr.formats.writers import Writer, channel_prefix, one_line


class CtmWriter(Writer):
    """NIST's conversation time marks: recording, channel, start and duration in seconds, word, confidence.

    sclite wants them in the order of recording, channel and start: with several of those, all is written at the end.
    """

    def __init__(self, out: TextIO, several: bool) -> None:
        self.out, self.several, self.name = out, several, ""
        self.held: list[tuple[str, int, float, str]] = []

    def begin(self, name: str) -> None:
        self.name = re.sub(r"\s+", "_", re.sub(r"(?<=.)\.[^./]*$", "", name))

    def event(self, event: Event, channel: int | None = None) -> None:
        if not isinstance(event, Final):
            return
        for word in filter(_is_said, event.words):
            times = f"{word.start:.3f} {max(0.0, word.end - word.start):.3f}"
            line = f"{self.name} {channel or 1} {times} {one_line(word.text, '_')} {word.confidence:.3f}"
            if self.several or channel is not None:
                self.held.append((self.name, channel or 1, word.start, line))
            else:
                print(line, file=self.out)
        self.out.flush()

    def close(self) -> None:
        for *_, line in sorted(self.held, key=lambda row: row[:3]):
            print(line, file=self.out)
        self.out.flush()


def _is_said(word: Word) -> bool:
    """Whether it is more than a line break that was dictated."""
    return not word.text.isspace()


class TsvWriter(Writer):
    """A table of utterances as Whisper's tools write it: start and end in milliseconds, text; a heading once.

    With several inputs, their names are a column before these.
    """

    def __init__(self, out: TextIO, several: bool) -> None:
        self.out, self.several, self.name, self.first = out, several, "", True

    def begin(self, name: str) -> None:
        if self.first:
            print("file\tstart\tend\ttext" if self.several else "start\tend\ttext", file=self.out)
        self.name, self.first = f"{one_line(name)}\t" if self.several else "", False

    def event(self, event: Event, channel: int | None = None) -> None:
        if isinstance(event, Final):
            times = f"{round(1000 * event.start)}\t{round(1000 * event.end)}"
            text = channel_prefix(channel) + one_line(event.text)
            print(f"{self.name}{times}\t{text}", file=self.out, flush=True)

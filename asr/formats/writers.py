"""What every writer does, and the plain ones: text, JSON, JSON lines."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TextIO

from asr.events import Event, Final, as_dict
from asr.text import printable
from asr.writing.tokens import join


class Writer(ABC):
    """Gets the events of one input after the other, as they come, and writes to a text stream."""

    @abstractmethod
    def begin(self, name: str) -> None:
        """An input begins."""

    @abstractmethod
    def event(self, event: Event, channel: int | None = None) -> None:
        """Something happened in it; `channel` (from 1) says where, if channels are kept apart."""

    def end(self, seconds: float | None = None) -> None:  # noqa: B027 (most have nothing to do)
        """The input, `seconds` long if that is known, has ended."""

    def close(self) -> None:  # noqa: B027
        """There are no more inputs."""


class TextWriter(Writer):
    """A line for each final, more where it has line breaks; with several inputs, each under a heading.

    With `timestamps`, a line begins with its start and end as Whisper's tools print them: `[00:01.2 --> 00:04.8] Yes.`
    """

    def __init__(self, out: TextIO, headings: bool, timestamps: bool = False) -> None:
        self.out, self.headings, self.timestamps, self.first = out, headings, timestamps, True

    def begin(self, name: str) -> None:
        if self.headings:
            print(f"{'' if self.first else chr(10)}==> {printable(name)} <==", file=self.out, flush=True)
        self.first = False

    def event(self, event: Event, channel: int | None = None) -> None:
        if isinstance(event, Final):
            times = f"[{_clock(event.start)} --> {_clock(event.end)}] " if self.timestamps else ""
            lines = event.text.removeprefix("\n").removesuffix("\n").split("\n")
            print(times + channel_prefix(channel) + "\n".join(map(one_line, lines)), file=self.out, flush=True)


class JsonLinesWriter(Writer):
    """A line for each event, with the `file` (and the `channel`, where they are kept apart) that it came from."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.name = out, ""

    def begin(self, name: str) -> None:
        self.name = name

    def event(self, event: Event, channel: int | None = None) -> None:
        line = {"file": self.name, **_with_channel(as_dict(event), channel)}
        print(_json(line, self.out), file=self.out, flush=True)


class JsonWriter(Writer):
    """One document, written at the end: `file`, `duration`, `text` and `utterances` of each input.

    A list of inputs; with `single`, the one input alone.
    """

    def __init__(self, out: TextIO, single: bool = False) -> None:
        self.out, self.single = out, single
        self.inputs: list[dict] = []

    def begin(self, name: str) -> None:
        self.inputs.append({"file": name, "duration": None, "text": "", "utterances": []})

    def event(self, event: Event, channel: int | None = None) -> None:
        if isinstance(event, Final):
            utterance = _with_channel(as_dict(event), channel)
            del utterance["type"]
            self.inputs[-1]["utterances"].append(utterance)

    def end(self, seconds: float | None = None) -> None:
        self.inputs[-1]["text"] = _joined(self.inputs[-1]["utterances"])
        self.inputs[-1]["duration"] = None if seconds is None else round(seconds, 3)

    def close(self) -> None:
        print(_json(self.inputs[0] if self.single else self.inputs, self.out, indent=1), file=self.out, flush=True)


def channel_prefix(channel: int | None) -> str:
    """What stands before the words of a channel in texts for people."""
    return "" if channel is None else f"Channel {channel}: "


def one_line(text: str, space: str = " ") -> str:
    """A text without line breaks, and with `space` wherever it had white space."""
    return space.join(text.split())


def _clock(seconds: float) -> str:
    """Minutes, seconds and tenths, from an hour on with hours: 00:42.5, 01:02:03.4."""
    minutes, tenths = divmod(round(10 * seconds), 600)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours:02d}:" if hours else "") + f"{minutes:02d}:{tenths // 10:02d}.{tenths % 10}"


def _json(value: dict | list, out: TextIO, indent: int | None = None) -> str:
    """JSON, with escapes for what the stream cannot encode: letters that it lacks, bytes of names that are no text."""
    text, encoding = json.dumps(value, ensure_ascii=False, indent=indent), out.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        known = {c: c.encode(encoding, "ignore") for c in set(text)}
        text = "".join(c if known[c] else json.dumps(c)[1:-1] for c in text)
    return text


def _with_channel(values: dict, channel: int | None) -> dict:
    return values if channel is None else {**values, "channel": channel}


def _joined(utterances: Iterable[dict]) -> str:
    return join(utterance["text"] for utterance in utterances)

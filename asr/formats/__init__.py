"""Writers over events: plain text, JSON, JSON lines."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TextIO

from asr.events import Event, Final, as_dict


class Writer(ABC):
    """Gets the events of one input after the other, as they come, and writes to a text stream."""

    @abstractmethod
    def begin(self, name: str) -> None:
        """An input begins."""

    @abstractmethod
    def event(self, event: Event) -> None:
        """Something happened in it."""

    def end(self) -> None:  # noqa: B027 (most have nothing to do)
        """The input has ended."""

    def close(self) -> None:  # noqa: B027
        """There are no more inputs."""


class TextWriter(Writer):
    """A line for each final; with several inputs, each under a heading."""

    def __init__(self, out: TextIO, headings: bool) -> None:
        self.out, self.headings, self.first = out, headings, True

    def begin(self, name: str) -> None:
        if self.headings:
            print(f"{'' if self.first else chr(10)}==> {name} <==", file=self.out, flush=True)
        self.first = False

    def event(self, event: Event) -> None:
        if isinstance(event, Final):
            print(event.text, file=self.out, flush=True)


class JsonLinesWriter(Writer):
    """A line for each event, with the `file` that it came from."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.name = out, ""

    def begin(self, name: str) -> None:
        self.name = name

    def event(self, event: Event) -> None:
        print(json.dumps({"file": self.name, **as_dict(event)}, ensure_ascii=False), file=self.out, flush=True)


class JsonWriter(Writer):
    """One document, written at the end: a list with `file`, `text` and `utterances` of each input."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.inputs: list[dict] = []

    def begin(self, name: str) -> None:
        self.inputs.append({"file": name, "text": "", "utterances": []})

    def event(self, event: Event) -> None:
        if isinstance(event, Final):
            utterance = as_dict(event)
            del utterance["type"]
            self.inputs[-1]["utterances"].append(utterance)

    def end(self) -> None:
        self.inputs[-1]["text"] = _joined(self.inputs[-1]["utterances"])

    def close(self) -> None:
        json.dump(self.inputs, self.out, ensure_ascii=False, indent=1)
        print(file=self.out, flush=True)


def _joined(utterances: Iterable[dict]) -> str:
    return " ".join(utterance["text"] for utterance in utterances)


def open_writer(name: str, out: TextIO, inputs: int) -> Writer:
    """The writer of a format (`txt`, `json` or `jsonl`), for that many inputs."""
    if name == "txt":
        return TextWriter(out, headings=inputs > 1)
    return {"json": JsonWriter, "jsonl": JsonLinesWriter}[name](out)

"""Writers over events: plain text, JSON, JSON lines, subtitles (SRT, WebVTT), CTM and a table of utterances."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import PurePath
from typing import TextIO

from asr.events import Event
from asr.formats.subtitles import SrtWriter, VttWriter
from asr.formats.tables import CtmWriter, TsvWriter
from asr.formats.writers import JsonLinesWriter, JsonWriter, TextWriter, Writer

FORMATS = ("txt", "json", "jsonl", "srt", "vtt", "ctm", "tsv")

__all__ = ["FORMATS", "Writer", "open_writer", "render"]


def open_writer(name: str, out: TextIO, inputs: int, timestamps: bool = False) -> Writer:
    """The writer of a format (one of `FORMATS`), for that many inputs in one text stream.

    Subtitles have no way to say where the next input begins: they are for one. `timestamps`: lines of text begin with
    their times; the other formats have times anyway.
    """
    if name == "txt":
        return TextWriter(out, inputs > 1, timestamps)
    others = {
        "json": JsonWriter,
        "jsonl": JsonLinesWriter,
        "srt": SrtWriter,
        "vtt": VttWriter,
    }
    tables = {"ctm": CtmWriter, "tsv": TsvWriter}
    return tables[name](out, inputs > 1) if name in tables else others[name](out)


def render(format: str, name: str, events: Iterable[tuple[Event, int | None]], seconds: float) -> str:
    """The whole file that a format makes of one input.

    Args:
        format: one of `FORMATS`.
        name: what the input is called.
        events: its events with the channel (from 1) that each was heard in, None where channels were mixed.
        seconds: how long it is.
    """
    out = io.StringIO()
    writer = JsonWriter(out, single=True) if format == "json" else open_writer(format, out, 1)
    writer.begin(PurePath(name).name if format == "ctm" else name)
    for event, channel in events:
        writer.event(event, channel)
    writer.end(seconds)
    writer.close()
    return out.getvalue()

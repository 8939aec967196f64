#!/usr/bin/env python3
"""A Lhotse CutSet (cuts.jsonl or cuts.jsonl.gz, of MonoCuts) -> OUTDIR/cuts.jsonl; the lhotse package is not needed.

A cut with one supervision becomes an utterance as it is, one with several becomes an utterance for each of them. Parts
of recordings get an `offset`; where recordings are long, --tar cuts the parts out once and for all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from asr.errors import ManifestError
from asr.training.corpus import Corpus, Entry, command

WHOLE = 0.01  # seconds by which a cut may miss its recording's length and still be all of it


def prepare(given: argparse.Namespace) -> Iterator[Corpus]:
    corpus = Corpus(given.source.name.removesuffix(".gz").removesuffix(".jsonl"))
    for number, cut in enumerate(read_cuts(given.source), start=1):
        try:
            if reason := obstacle(cut):
                corpus.left_out[reason] += 1
            else:
                corpus.entries += entries_of(cut, given.source.parent)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ManifestError(f"{given.source}: cut {number} is not one of Lhotse's: {error!r}") from error
    yield corpus


def read_cuts(path: Path) -> Iterator[dict]:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ManifestError(f"{path}: not a CutSet in JSON lines: {str(error).splitlines()[0]}") from error


def obstacle(cut: dict) -> str | None:
    """Why a cut cannot be an utterance; None = it can."""
    if cut.get("type", "MonoCut") != "MonoCut":
        return f"of type {cut['type']}: save MonoCuts"
    recording = cut.get("recording")
    if recording is None:
        return "without a recording"
    if recording.get("transforms"):
        return "with transforms such as speed: save the cuts without them, training has its own"
    if len(recording["sources"]) != 1 or recording["sources"][0]["type"] != "file":
        return "whose recording is not one file"
    if len(recording.get("channel_ids") or [0]) > 1:
        return "whose recording has several channels"
    return None if cut.get("supervisions") else "without a supervision"


def entries_of(cut: dict, folder: Path) -> list[Entry]:
    recording, supervisions = cut["recording"], cut["supervisions"]
    audio = Path(recording["sources"][0]["source"])
    if not audio.is_absolute() and not audio.exists():
        audio = folder / audio
    start, duration = float(cut["start"]), float(cut["duration"])
    if len(supervisions) == 1:
        parts = [(start, duration)]
    else:
        parts = [(max(start, start + s["start"]), float(s["duration"])) for s in supervisions]
    entries = []
    for (begin, seconds), supervision in zip(parts, supervisions, strict=True):
        more = {"speaker": supervision["speaker"]} if supervision.get("speaker") else {}
        whole = begin < WHOLE and seconds > recording["duration"] - WHOLE
        entries.append(Entry(audio, supervision.get("text") or "", more, None if whole else begin, seconds))
    return entries


if __name__ == "__main__":
    sys.exit(command(__doc__, prepare))

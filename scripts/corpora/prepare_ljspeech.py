#!/usr/bin/env python3
"""A folder like LJ Speech's (metadata.csv of id|as written|spelled out, wavs/id.wav) -> OUTDIR/train.jsonl."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from asr.training.corpus import Corpus, Entry, command, dev_option, read_table


def prepare(given: argparse.Namespace) -> Iterator[Corpus]:
    corpus = Corpus("train")
    for line in read_table(given.source / "metadata.csv"):
        if not line.strip():
            continue
        name, *texts = line.split("|")
        written, spelled = (texts[0], texts[-1]) if texts else ("", "")
        audio = given.source / "wavs" / f"{name}.wav"
        more = {"speaker": given.speaker, "written": " ".join(written.split())}
        corpus.entries.append(Entry(audio, spelled or written, more))
    yield corpus


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speaker", default="LJ", help="name of the one speaker (default: LJ)")
    dev_option(parser)


if __name__ == "__main__":
    sys.exit(command(__doc__, prepare, options))

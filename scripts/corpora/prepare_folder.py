#!/usr/bin/env python3
"""A folder of sound files, each with its text beside it (a.wav and a.txt), at any depth -> OUTDIR/train.jsonl."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from asr.training.corpus import AUDIO, Corpus, Entry, command, dev_option


def prepare(given: argparse.Namespace) -> Iterator[Corpus]:
    corpus = Corpus("train")
    for audio in sorted(path for path in given.source.rglob("*") if path.suffix.lower() in AUDIO):
        text = audio.with_suffix(".txt")
        if not text.is_file():
            corpus.left_out["without a .txt beside it"] += 1
            continue
        try:
            words = text.read_text("utf-8-sig")
        except UnicodeDecodeError:
            corpus.left_out["whose text is not UTF-8"] += 1
            continue
        inner = audio.relative_to(given.source).parts[:-1]
        more = {"speaker": inner[0]} if given.speakers and inner else {}
        corpus.entries.append(Entry(Path(audio), words, more))
    yield corpus


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speakers", action="store_true", help="each folder directly in SOURCE is a speaker")
    dev_option(parser)


if __name__ == "__main__":
    sys.exit(command(__doc__, prepare, options))

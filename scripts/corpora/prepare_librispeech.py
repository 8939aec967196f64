#!/usr/bin/env python3
"""LibriSpeech (SUBSET/SPEAKER/CHAPTER/*.flac, *.trans.txt; or one subset) -> OUTDIR/SUBSET.jsonl of each subset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from asr.errors import ManifestError
from asr.training.corpus import Corpus, Entry, command, read_table

TRANSCRIPTS = "*/*/*.trans.txt"  # below a subset


def prepare(given: argparse.Namespace) -> Iterator[Corpus]:
    folders = [given.source, *sorted(path for path in given.source.iterdir() if path.is_dir())]
    subsets = [folder for folder in folders if any(folder.glob(TRANSCRIPTS))]
    if given.subsets:
        subsets = [folder for folder in subsets if folder.name in given.subsets]
    if not subsets:
        raise ManifestError(f"{given.source}: holds no subset with SPEAKER/CHAPTER/*.trans.txt")
    return map(read_subset, subsets)


def read_subset(folder: Path) -> Corpus:
    corpus = Corpus(folder.resolve().name)
    for table in sorted(folder.glob(TRANSCRIPTS)):
        speaker = table.parent.parent.name
        for line in read_table(table):
            name, _, text = line.strip().partition(" ")
            if name:
                corpus.entries.append(Entry(table.parent / f"{name}.flac", text.lower(), {"speaker": speaker}))
    return corpus


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subsets", nargs="+", metavar="NAME", help="only these, such as train-clean-100 dev-clean")


if __name__ == "__main__":
    sys.exit(command(__doc__, prepare, options))

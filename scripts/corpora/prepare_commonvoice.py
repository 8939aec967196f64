#!/usr/bin/env python3
"""A language of Common Voice (train.tsv, dev.tsv, test.tsv, ... and clips/) -> OUTDIR/SPLIT.jsonl of each split."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from asr.errors import ManifestError
from asr.training.corpus import Corpus, Entry, command, read_table


def prepare(given: argparse.Namespace) -> Iterator[Corpus]:
    for split in given.splits:
        yield read_split(given.source, split)


def read_split(folder: Path, split: str) -> Corpus:
    table = folder / f"{split}.tsv"
    rows = csv.DictReader(read_table(table), delimiter="\t", quoting=csv.QUOTE_NONE)
    if missing := {"path", "sentence"} - set(rows.fieldnames or ()):
        raise ManifestError(f"{table}: has no column {' and none '.join(sorted(missing))}")
    corpus = Corpus(split)
    for row in rows:
        text = " ".join((row["sentence"] or "").split())
        more = {"speaker": row["client_id"]} if row.get("client_id") else {}
        more |= {key: row[key] for key in ("accents", "age", "gender") if row.get(key)}
        corpus.entries.append(Entry(folder / "clips" / row["path"], text, {**more, "written": text}))
    return corpus


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--splits", nargs="+", default=["train", "dev", "test"], metavar="NAME", help="default: train dev test"
    )


if __name__ == "__main__":
    sys.exit(command(__doc__, prepare, options))

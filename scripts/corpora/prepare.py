#!/usr/bin/env python3
"""Makes manifests (OUTDIR/NAME.jsonl) of corpora as they come, for `asr train` and `asr evaluate`.

    python scripts/corpora/prepare.py folder corpus runs/mine --dev 0.1
    python scripts/corpora/prepare.py librispeech LibriSpeech runs/librispeech --tar

Utterances without text or readable audio are left out and counted.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from asr.errors import AsrError, ManifestError
from asr.jobs.inputs import MEDIA
from asr.training.corpus import Corpus, Entry, measure, read_table, split_off, write

TRANSCRIPTS = "*/*/*.trans.txt"  # below a subset of LibriSpeech
WHOLE = 0.01  # seconds by which a cut may miss its recording's length and still be all of it


def folder(given: argparse.Namespace) -> Iterator[Corpus]:
    """A folder of sound files, each with its text beside it (a.wav and a.txt), at any depth -> train.jsonl."""
    corpus = Corpus("train")
    for audio in sorted(path for path in given.source.rglob("*") if path.suffix.lower().removeprefix(".") in MEDIA):
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
        corpus.entries.append(Entry(audio, words, {"speaker": inner[0]} if given.speakers and inner else {}))
    yield corpus


def librispeech(given: argparse.Namespace) -> Iterator[Corpus]:
    """LibriSpeech (SUBSET/SPEAKER/CHAPTER/*.flac, *.trans.txt; or one subset) -> SUBSET.jsonl of each subset."""
    folders = [given.source, *sorted(path for path in given.source.iterdir() if path.is_dir())]
    subsets = [each for each in folders if any(each.glob(TRANSCRIPTS))]
    if given.subsets:
        subsets = [each for each in subsets if each.name in given.subsets]
    if not subsets:
        raise ManifestError(f"{given.source}: holds no subset with SPEAKER/CHAPTER/*.trans.txt")
    for subset in subsets:
        corpus = Corpus(subset.resolve().name)
        for table in sorted(subset.glob(TRANSCRIPTS)):
            speaker = table.parent.parent.name
            for line in read_table(table):
                name, _, text = line.strip().partition(" ")
                if name:
                    corpus.entries.append(Entry(table.parent / f"{name}.flac", text.lower(), {"speaker": speaker}))
        yield corpus


def commonvoice(given: argparse.Namespace) -> Iterator[Corpus]:
    """A language of Common Voice (train.tsv, dev.tsv, test.tsv, ... and clips/) -> SPLIT.jsonl of each split."""
    for split in given.splits:
        table = given.source / f"{split}.tsv"
        rows = csv.DictReader(read_table(table), delimiter="\t", quoting=csv.QUOTE_NONE)
        if missing := {"path", "sentence"} - set(rows.fieldnames or ()):
            raise ManifestError(f"{table}: has no column {' and none '.join(sorted(missing))}")
        corpus = Corpus(split)
        for row in rows:
            text = " ".join((row["sentence"] or "").split())
            more = {"speaker": row["client_id"]} if row.get("client_id") else {}
            more |= {key: row[key] for key in ("accents", "age", "gender") if row.get(key)}
            corpus.entries.append(Entry(given.source / "clips" / row["path"], text, {**more, "written": text}))
        yield corpus


def ljspeech(given: argparse.Namespace) -> Iterator[Corpus]:
    """A folder like LJ Speech's (metadata.csv of id|as written|spelled out, wavs/id.wav) -> train.jsonl."""
    corpus = Corpus("train")
    for line in filter(str.strip, read_table(given.source / "metadata.csv")):
        name, *texts = line.split("|")
        written, spelled = (texts[0], texts[-1]) if texts else ("", "")
        more = {"speaker": given.speaker, "written": " ".join(written.split())}
        corpus.entries.append(Entry(given.source / "wavs" / f"{name}.wav", spelled or written, more))
    yield corpus


def lhotse(given: argparse.Namespace) -> Iterator[Corpus]:
    """A Lhotse CutSet (NAME.jsonl or NAME.jsonl.gz, of MonoCuts) -> NAME.jsonl; the lhotse package is not needed.

    A cut with one supervision becomes an utterance as it is, one with several becomes an utterance for each of them.
    Parts of recordings get an `offset`; where recordings are long, --tar cuts the parts out once and for all.
    """
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


def entries_of(cut: dict, place: Path) -> list[Entry]:
    recording, supervisions = cut["recording"], cut["supervisions"]
    audio = Path(recording["sources"][0]["source"])
    if not audio.is_absolute() and not audio.exists():
        audio = place / audio
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


READERS = {reader.__name__: reader for reader in (folder, librispeech, commonvoice, ljspeech, lhotse)}


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("must be at least 0 and below 1")
    return value


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds, of = parser.add_subparsers(dest="kind", required=True, metavar="KIND"), {}
    for kind, reader in READERS.items():
        of[kind] = kinds.add_parser(kind, help=reader.__doc__.splitlines()[0], description=reader.__doc__)
        of[kind].add_argument("source", type=Path, metavar="SOURCE", help="where the corpus is")
        of[kind].add_argument("target", type=Path, metavar="OUTDIR", help="where the manifests go")
        of[kind].add_argument("--tar", action="store_true", help="pack the audio into a tar beside each manifest")
        of[kind].set_defaults(dev=0.0)
    for kind in ("folder", "ljspeech"):
        about = "share of the utterances that go to dev.jsonl instead"
        of[kind].add_argument("--dev", type=share, metavar="SHARE", help=about)
    of["folder"].add_argument("--speakers", action="store_true", help="each folder directly in SOURCE is a speaker")
    subsets = "only these, such as train-clean-100 dev-clean"
    of["librispeech"].add_argument("--subsets", nargs="+", metavar="NAME", help=subsets)
    splits = ["train", "dev", "test"]
    about = f"default: {' '.join(splits)}"
    of["commonvoice"].add_argument("--splits", nargs="+", default=splits, metavar="NAME", help=about)
    of["ljspeech"].add_argument("--speaker", default="LJ", help="name of the one speaker (default: LJ)")
    return parser.parse_args()


def main() -> int:
    given = options()
    try:
        if not given.source.exists():
            raise ManifestError(f"{given.source}: is not there")
        for corpus in READERS[given.kind](given):
            measure(corpus)
            for part in split_off(corpus, given.dev):
                print(write(part, given.target, tar=given.tar), flush=True)
    except (AsrError, OSError) as error:
        reason = f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else error
        print(f"prepare {given.kind}: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

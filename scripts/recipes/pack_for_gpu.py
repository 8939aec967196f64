"""Corpora, in pieces below 60 MiB, for a bare machine with a GPU; `train_on_gpu.py` is what runs there.

    python scripts/recipes/pack_for_gpu.py OUT train/a.jsonl train/b.jsonl --dev dev.jsonl --teacher runs/teacher

Each manifest becomes NAME.jsonl with its audio in NAME.tar, whether it lay in a tar or loose. --max-hours leaves out
what comes after so much of each manifest.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path

from pieces import PieceWriter

from asr.manifest import Manifest

PIECE = 60 * 2**20 - 2**16  # bytes
NAME = "corpora.tar"


def corpus_name(path: Path, taken: set[str]) -> str:
    """A name for a manifest's files: its own, with its folder's where that is needed to tell it from others."""
    for name in (path.stem, f"{path.parent.name}-{path.stem}"):
        if name not in taken and name not in ("train", "dev", "test", "manifest"):
            break
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def add_file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def pack_manifest(tar: tarfile.TarFile, path: Path, name: str, most_seconds: float) -> float:
    """Adds a manifest and its audio; the seconds that it holds."""
    manifest = Manifest(path, require_text=False)
    inner, seconds, lines, known = io.BytesIO(), 0.0, [], set()
    with tarfile.open(fileobj=inner, mode="w") as audio:
        for utterance in manifest:
            if seconds + utterance.duration > most_seconds:
                break
            seconds += utterance.duration
            if utterance.audio not in known:
                add_file(audio, utterance.audio.lstrip("/"), manifest.read_bytes(utterance))
                known.add(utterance.audio)
            line = {
                "audio_filepath": utterance.audio.lstrip("/"),
                "duration": utterance.duration,
                "text": utterance.text,
            }
            line |= {} if utterance.offset is None else {"offset": utterance.offset}
            lines.append(json.dumps(line | utterance.extra, ensure_ascii=False) + "\n")
    add_file(tar, f"{name}.jsonl", "".join(lines).encode())
    add_file(tar, f"{name}.tar", inner.getvalue())
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("train", type=Path, nargs="+")
    parser.add_argument("--dev", type=Path, nargs="*", default=[])
    parser.add_argument("--teacher", type=Path, help="folder that import_moonshine.py wrote")
    parser.add_argument("--max-hours", type=float, default=float("inf"))
    options = parser.parse_args()
    for old in options.out.glob(f"{NAME}.*"):
        old.unlink()
    writer, taken, sets = PieceWriter(options.out, NAME, PIECE), set(), {"train": [], "dev": []}
    with tarfile.open(fileobj=writer, mode="w|") as tar:
        for kind, paths in (("train", options.train), ("dev", options.dev)):
            for path in paths:
                name = corpus_name(path, taken)
                seconds = pack_manifest(tar, path, name, 3600 * options.max_hours)
                sets[kind].append(f"{name}.jsonl")
                print(f"{name}: {seconds / 3600:.2f} h")
        for path in sorted(options.teacher.iterdir()) if options.teacher else []:
            add_file(tar, f"teacher/{path.name}", path.read_bytes())
        add_file(tar, "sets.json", json.dumps(sets).encode())
    writer.close()
    print(f"{len(writer.pieces)} pieces in {options.out}")


if __name__ == "__main__":
    main()

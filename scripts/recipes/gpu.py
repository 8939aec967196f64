#!/usr/bin/env python3
"""Training on a bare machine with a GPU behind a narrow door: corpora go in, and the model comes back, in pieces.

    python scripts/recipes/gpu.py pack PIECES train/a.jsonl train/b.jsonl --dev dev.jsonl --teacher runs/teacher
    python scripts/recipes/gpu.py train PIECES OUT --config configs/base-en-gpu.yaml [--set KEY=VALUE ...]   # there
    python scripts/recipes/gpu.py join OUT MODEL    # here again: the model, made whole

Each manifest is packed as NAME.jsonl with its audio in NAME.tar, whether it lay in a tar or loose. The run is in
OUT/run, where a second call goes on with it; OUT/model, in pieces, and OUT/log have to be brought back.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from asr.files import replacing
from asr.manifest import Manifest

LIST, SETS = "pieces.json", "sets.json"
THERE, BACK = 60 * 2**20 - 2**16, 16 * 2**20 - 2**16  # bytes of a piece


def split(path: Path, folder: Path, name: str, size: int) -> int:
    """Puts a file as NAME.000, NAME.001, ... of at most `size` bytes into a folder and its list; how many they are."""
    pieces, digest, listed = [], hashlib.sha256(), folder / LIST
    with open(path, "rb") as file:
        while (data := file.read(size)) or not pieces:
            digest.update(data)
            pieces.append(f"{name}.{len(pieces):03d}")
            target = folder / pieces[-1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    known = json.loads(listed.read_text("utf-8")) if listed.exists() else {}
    known[name] = {"pieces": pieces, "sha256": digest.hexdigest()}
    listed.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    return len(pieces)


def join(folder: Path, target: Path) -> list[str]:
    """Makes all files of a folder of pieces whole in another folder; their names.

    Raises:
        SystemExit: a piece is missing, or a file is not what was split.
    """
    listed = json.loads((folder / LIST).read_text("utf-8"))
    for name, entry in listed.items():
        digest = hashlib.sha256()
        with replacing(target / name) as partial, open(partial, "wb") as file:
            for piece in entry["pieces"]:
                try:
                    data = (folder / piece).read_bytes()
                except OSError as error:
                    raise SystemExit(f"{folder / piece}: {error.strerror}: bring all pieces of {LIST}") from error
                digest.update(data)
                file.write(data)
            if digest.hexdigest() != entry["sha256"]:
                raise SystemExit(f"{folder}: the pieces of {name} are damaged: bring them again")
    return list(listed)


def corpus_name(path: Path, taken: set[str]) -> str:
    """A name for a manifest's files: its own, with its folder's where that is needed to tell it from others."""
    for name in (path.stem, f"{path.parent.name}-{path.stem}"):
        if name not in taken and name not in ("train", "dev", "test", "manifest"):
            break
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def copy_corpus(path: Path, target: Path, most_seconds: float) -> float:
    """Copies a manifest and its audio into a manifest and a tar beside it; the seconds that it holds."""
    manifest = Manifest(path, require_text=False)
    seconds, lines, known = 0.0, [], set()
    with tarfile.open(target.with_suffix(".tar"), "w") as tar:
        for utterance in manifest:
            if seconds + utterance.duration > most_seconds:
                break
            seconds += utterance.duration
            name = utterance.audio.lstrip("/")
            if name not in known:
                known.add(name)
                data, member = manifest.read_bytes(utterance), tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            line = {"audio_filepath": name, "duration": utterance.duration, "text": utterance.text}
            line |= {} if utterance.offset is None else {"offset": utterance.offset}
            lines.append(json.dumps(line | utterance.extra, ensure_ascii=False) + "\n")
    target.write_text("".join(lines), "utf-8")
    return seconds


def pack(options: argparse.Namespace) -> None:
    """Corpora and teacher in pieces."""
    taken, sets, count = set(), {"train": [], "dev": []}, 0
    for old in [*options.pieces.glob("**/*.[0-9][0-9][0-9]"), *options.pieces.glob(LIST)]:
        old.unlink()
    for kind, paths in (("train", options.manifests), ("dev", options.dev)):
        for path in paths:
            name = corpus_name(path, taken)
            sets[kind].append(f"{name}.jsonl")
            with tempfile.TemporaryDirectory() as place:
                seconds = copy_corpus(path, Path(place, f"{name}.jsonl"), 3600 * options.max_hours)
                count += sum(split(file, options.pieces, file.name, THERE) for file in Path(place).iterdir())
            print(f"{name}: {seconds / 3600:.2f} h")
    for path in sorted(options.teacher.iterdir()) if options.teacher else []:
        count += split(path, options.pieces, f"teacher/{path.name}", THERE)
    (options.pieces / SETS).write_text(json.dumps(sets), "utf-8")
    count += split(options.pieces / SETS, options.pieces, SETS, THERE)
    print(f"{count} pieces in {options.pieces}")


def train(options: argparse.Namespace) -> None:
    """`asr train` on what was packed; ends with its status."""
    data, run = options.out / "data", options.out / "run"
    if not (data / SETS).exists():  # the last to be made whole
        join(options.pieces, data)
    sets = json.loads((data / SETS).read_text("utf-8"))
    command = [sys.executable, "-m", "asr", "train", str(options.config), "--run", str(run)]
    command += ["--resume"] if run.exists() else []
    settings = [f"data.{kind}=[{','.join(str(data / name) for name in names)}]" for kind, names in sets.items()]
    settings += [f"teacher.folder={data / 'teacher'}"] if (data / "teacher").exists() else []
    for setting in [*settings, *options.set]:
        command += ["--set", setting]
    command += [] if options.time_limit is None else ["--time-limit", str(options.time_limit)]
    status = subprocess.run(command).returncode
    for path in sorted((run / "model").glob("*")):
        split(path, options.out / "model", path.name, BACK)
    if (log := run / "log.jsonl").exists():
        split(log, options.out / "log", log.name, BACK)
    sys.exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack", help="corpora and teacher in pieces")
    packing.add_argument("pieces", type=Path)
    packing.add_argument("manifests", type=Path, nargs="+")
    packing.add_argument("--dev", type=Path, nargs="*", default=[])
    packing.add_argument("--teacher", type=Path, help="folder that import_moonshine.py wrote")
    packing.add_argument("--max-hours", type=float, default=float("inf"), help="of each manifest")
    packing.set_defaults(do=pack)
    training = commands.add_parser("train", help="train on them, and leave the model in pieces")
    training.add_argument("pieces", type=Path)
    training.add_argument("out", type=Path)
    training.add_argument("--config", type=Path, default=Path("configs/base-en-gpu.yaml"))
    training.add_argument("--time-limit", type=float, metavar="MINUTES")
    training.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    training.set_defaults(do=train)
    joining = commands.add_parser("join", help="make OUT/model whole")
    joining.add_argument("out", type=Path)
    joining.add_argument("model", type=Path)
    joining.set_defaults(do=lambda options: print("\n".join(join(options.out / "model", options.model))))
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()

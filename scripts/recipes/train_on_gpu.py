"""Unpacks what `pack_for_gpu.py` made, trains on it, and leaves the model in pieces below 16 MiB.

    python scripts/recipes/train_on_gpu.py PIECES OUT --config configs/base-en-gpu.yaml [--set KEY=VALUE ...]
    python scripts/recipes/train_on_gpu.py --join OUT MODEL     # where the pieces were brought to: the model

The run is in OUT/run, where a second call goes on with it; OUT/model, in pieces, and OUT/log have to be brought back.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pack_for_gpu import NAME
from pieces import join, read_joined, split

PIECE = 16 * 2**20 - 2**16  # bytes


class Joined:
    """Pieces as a file object to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._piece = pieces, io.BytesIO()

    def read(self, size: int) -> bytes:
        data = self._piece.read(size)
        while len(data) < size and (piece := next(self._pieces, None)) is not None:
            self._piece = io.BytesIO(piece)
            data += self._piece.read(size - len(data))
        return data


def unpack(pieces: Path, target: Path) -> dict[str, list[str]]:
    """The corpora, unless they are there already; the manifests of train and dev."""
    listed = target / "sets.json"
    if not listed.exists():
        with tarfile.open(fileobj=Joined(read_joined(pieces, NAME)), mode="r|") as tar:
            tar.extractall(target, filter="data")
    sets = json.loads(listed.read_text("utf-8"))
    return {kind: [str(target / name) for name in names] for kind, names in sets.items()}


def train(options: argparse.Namespace) -> int:
    data, run = options.out / "data", options.out / "run"
    sets = unpack(options.pieces, data)
    command = [sys.executable, "-m", "asr", "train", str(options.config), "--run", str(run)]
    command += ["--resume"] if run.exists() else []
    settings = [f"data.{kind}=[{','.join(names)}]" for kind, names in sets.items()]
    settings += [f"teacher.folder={data / 'teacher'}"] if (data / "teacher").exists() else []
    for setting in [*settings, *options.set]:
        command += ["--set", setting]
    command += [] if options.time_limit is None else ["--time-limit", str(options.time_limit)]
    status = subprocess.run(command).returncode
    model = run / "model"
    for path in sorted(model.iterdir()) if model.exists() else []:
        split(path, options.out / "model", PIECE)
    log = run / "log.jsonl"
    if log.exists():
        split(log, options.out / "log", PIECE)
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--config", type=Path, default=Path("configs/base-en-gpu.yaml"))
    parser.add_argument("--time-limit", type=float, metavar="MINUTES")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--join", action="store_true", help="make PIECES/model whole in OUT")
    options = parser.parse_args()
    if options.join:
        print("\n".join(join(options.pieces / "model", options.out)))
        return
    sys.exit(train(options))


if __name__ == "__main__":
    main()

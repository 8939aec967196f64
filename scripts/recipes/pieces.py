"""Large files in pieces that fit through a narrow door, and back: what the scripts for borrowed GPUs share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from asr.files import replacing

LIST = "pieces.json"


class PieceWriter:
    """A file object, for writing only, whose content goes into `NAME.000`, `NAME.001`, ... of at most `size` bytes."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self._folder, self._name, self._size = folder, name, size
        self._held = bytearray()
        self._digest = hashlib.sha256()
        self.pieces: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, data: bytes) -> int:
        self._held += data
        self._digest.update(data)
        while len(self._held) >= self._size:
            self._put(self._size)
        return len(data)

    def close(self) -> None:
        """Writes the rest, and the list of pieces beside those that are there."""
        if self._held or not self.pieces:
            self._put(len(self._held))
        path = self._folder / LIST
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known[self._name] = {"pieces": self.pieces, "sha256": self._digest.hexdigest()}
        path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")

    def _put(self, size: int) -> None:
        piece = f"{self._name}.{len(self.pieces):03d}"
        (self._folder / piece).write_bytes(self._held[:size])
        del self._held[:size]
        self.pieces.append(piece)


def split(path: Path, folder: Path, size: int) -> None:
    """A file in pieces of at most `size` bytes."""
    writer = PieceWriter(folder, path.name, size)
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            writer.write(data)
    writer.close()


def read_joined(folder: Path, name: str) -> Iterator[bytes]:
    """A file's content, piece by piece.

    Raises:
        SystemExit: a piece is missing, or the whole is not what was split.
    """
    entry = json.loads((folder / LIST).read_text("utf-8"))[name]
    digest = hashlib.sha256()
    for piece in entry["pieces"]:
        try:
            data = (folder / piece).read_bytes()
        except OSError as error:
            raise SystemExit(f"{folder / piece}: {error.strerror}: bring all pieces of {LIST}") from error
        digest.update(data)
        yield data
    if digest.hexdigest() != entry["sha256"]:
        raise SystemExit(f"{folder}: the pieces of {name} are damaged: bring them again")


def join(folder: Path, target: Path) -> list[str]:
    """All files of a folder of pieces, made whole in another folder; their names."""
    target.mkdir(parents=True, exist_ok=True)
    names = list(json.loads((folder / LIST).read_text("utf-8")))
    for name in names:
        with replacing(target / name) as partial, open(partial, "wb") as file:
            file.writelines(read_joined(folder, name))
    return names

"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"  # ends the name of a file that is being written


@contextmanager
def replacing(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` when the block ends, and is removed when the block fails.

    Args:
        path: of the file; its folder is made.
        durable: what is written is on the disk before it takes that place, so that even a power cut leaves one of both.

    Raises:
        OSError: it cannot be written.
    """
    final = Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{_mark(final.name)}{os.getpid()}{PARTIAL}")
    try:
        yield partial
        if durable:
            sync(partial)
        partial.replace(final)
        if durable:
            sync(final.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | Path, content: bytes | str, *, durable: bool = False) -> None:
    """Writes a file, text in UTF-8, as `replacing` does."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")
    with replacing(path, durable=durable) as partial:
        partial.write_bytes(data)


def sync(path: Path) -> None:
    """Waits until a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(path: str | Path) -> None:
    """Removes what processes that were killed while they wrote a file have left beside it."""
    final = Path(path)
    for leftover in final.parent.glob(f"{_mark(final.name)}*{PARTIAL}"):
        leftover.unlink(missing_ok=True)


def _mark(name: str) -> str:
    """Begins the name of what is written, which is short however long the file's own name is."""
    return f".{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}."

"""Files that are there whole or not at all, whatever happens while they are written; and in what text is encoded."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a full disk answers
PARTIAL = ".partial"  # ends the name of a file that is being written
_MARKS = {  # byte order marks; those of UTF-32 begin with those of UTF-16
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def marked_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark at the start of a text names; None: there is no mark."""
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)


@contextmanager
def replacing(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` when the block ends, and is removed when the block fails.

    Of a link, the file that it points to is replaced. What is no file of a disk, such as a pipe or `/dev/stdout`, is
    written to as it is.

    Args:
        path: of the file; its folder is made.
        durable: what is written is on the disk before it takes that place, so that even a power cut leaves one of both.

    Raises:
        OSError: it cannot be written.
    """
    if _is_special(path):
        yield Path(path)
        return
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{_mark(final.name)}{os.getpid()}{PARTIAL}")
    try:
        yield partial
        if durable:
            sync(partial)
        if final.exists():
            shutil.copymode(final, partial)
        partial.replace(final)
        if durable:
            sync(final.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Holds a folder, as long as the process lives at most; False: another process does.

    Where a file system knows no locks, everybody gets True.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield True
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:
            free = error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        yield free
    finally:
        os.close(handle)


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
    final = Path(os.path.realpath(path))
    for leftover in final.parent.glob(f"{_mark(final.name)}*{PARTIAL}"):
        leftover.unlink(missing_ok=True)


def is_of_kernel(path: str | os.PathLike) -> bool:
    """Whether a path lies in a file system in which the kernel tells of itself (`/proc`, `/sys`)."""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return False
    return device in {os.stat(place).st_dev for place in ("/proc", "/sys") if os.path.ismount(place)}


def _is_special(path: str | Path) -> bool:
    """Whether a path is there and neither a file nor a folder: a device or a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _mark(name: str) -> str:
    """Begins the name of what is written, which is short however long the file's own name is."""
    return f".{hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()}."

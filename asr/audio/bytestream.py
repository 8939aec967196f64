"""The bytes of a sound source: a file, standard input or a file object, opened so that ffmpeg never sees its name."""

import io
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from asr.errors import AudioError
from asr.files import is_of_kernel

Source = str | os.PathLike | BinaryIO

_HEAD_BYTES = 16
_MP4_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}
_OGG_PAGE_BYTES = 65307  # the largest that a page can be
_OGG_LAST_PAGE = 4  # flag in the sixth byte of a page
_PIPED_WAV_BYTES, _PIPED_BYTES = 0x7FFF0000, 1 << 62  # what is written into a pipe claims this size or more
_XING_FRAMES = 1  # flag in an MP3's tag: the number of frames is stated
_FIRST_FRAME_BYTES = 4096  # of an MP3 in which its tag would be
_SLACK_BYTES = 64  # writers disagree on what the size in the header counts


class ByteStream:
    """A binary file with what decoding needs to know of it in advance, and no name, so that content alone decides.

    A file that can seek is read from its start, another from where it stands.

    Attributes:
        head: the first bytes, at most 16; empty for an empty file.
        size: length in bytes, None for a source that cannot seek.
    """

    def __init__(self, file: BinaryIO, resources: ExitStack):
        self._file, self._resources = file, resources
        self._interrupt: KeyboardInterrupt | None = None
        self._waits = False  # a KeyboardInterrupt now is caught by `read`
        self._left: int | None = None  # bytes up to the end of the sound, where it is known
        self._wake: tuple[int, int] | None = None  # a pipe whose writing end ends a `read` that waits
        # A pipe's read1 gives what has arrived, where its read would wait until all that was asked for has.
        self._read = getattr(file, "read1", file.read)
        self.size = None
        if hasattr(file, "seek") and (not hasattr(file, "seekable") or file.seekable()):
            file.seek(0, os.SEEK_END)
            self.size = file.tell()
            file.seek(0)
        self.head = b""
        while len(self.head) < _HEAD_BYTES and (more := self._read(_HEAD_BYTES - len(self.head))):
            self.head += more
        self._ahead = self.head
        if self.size is not None:
            self.seek(0)

    def read(self, count: int) -> bytes:
        """The next bytes: as many as are there, at most `count`; none at the end."""
        if self._left is None:
            return self._next(count)
        data = self._next(min(count, self._left)) if self._left else b""
        self._left -= len(data)
        while not self._left and not data and self._next(count):
            pass
        return data

    def _next(self, count: int) -> bytes:
        if self._ahead:
            ahead, self._ahead = self._ahead[:count], self._ahead[count:]
            return ahead
        try:
            self._waits = True
            if self._interrupt is not None:  # ffmpeg asks again after an end
                return b""
            if self._wake is not None and self._wake[0] in select.select([self._file, self._wake[0]], [], [])[0]:
                return b""
            return self._read(count)
        except KeyboardInterrupt as interrupt:
            self._interrupt = interrupt
            return b""
        finally:
            self._waits = False

    def give_back(self, data: bytes) -> None:
        """Let what has been read be read again."""
        self._ahead = data + self._ahead

    def limit(self, count: int | None) -> None:
        """What follows the next `count` bytes is no sound, and is passed over."""
        self._left = count

    @contextmanager
    def keeping_interrupts(self) -> Iterator[None]:
        """While ffmpeg is at work, which calls `read` and would lose a KeyboardInterrupt there, one is kept for
        `raise_interrupt`, and `read` comes to its end.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        ours = {number: handler for number, handler in handlers.items() if callable(handler)}

        def keep(number: int, frame: object) -> None:
            try:
                ours[number](number, frame)
            except KeyboardInterrupt as interrupt:
                if self._waits:  # inside of the `try` of `read`
                    raise
                self._interrupt = interrupt

        for number in ours:
            signal.signal(number, keep)
        try:
            yield
        finally:
            for number, handler in ours.items():
                signal.signal(number, handler)

    def raise_interrupt(self) -> None:
        """Raise the KeyboardInterrupt that was kept."""
        if self._interrupt is not None:
            raise self._interrupt

    def can_be_waited_for(self) -> bool:
        """Whether this is a pipe or a device whose `read` another thread can end; from here on it can."""
        if self.size is not None or os.name == "nt":
            return False
        try:
            select.select([self._file], [], [], 0)
        except (OSError, TypeError, ValueError):
            return False
        self._wake = os.pipe()
        self._resources.callback(lambda: [os.close(end) for end in self._wake])
        return True

    def end(self) -> None:
        """End a `read` that waits in another thread, and all later ones."""
        os.write(self._wake[1], b"\0")

    def seekable(self) -> bool:
        """Whether `seek`, `tell` and `piece` work."""
        return self.size is not None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in bytes and return it."""
        self._ahead = b""
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """The position in bytes."""
        return self._file.tell()

    def piece(self, start: int, count: int) -> bytes:
        """`count` bytes from `start` on, or as many as there are; the position is kept."""
        position = self.tell()
        self.seek(start)
        piece = self._file.read(count)
        self.seek(position)
        return piece

    def states_length(self) -> bool:
        """Whether the first frame of an MP3 states how many follow, by the tag of Xing, which LAME writes too."""
        if self.size is None:
            return False
        start, begin = self.piece(0, 10), 0
        if start.startswith(b"ID3"):
            a, b, c, d = start[6:10]
            begin = 10 + (a << 21 | b << 14 | c << 7 | d)
        frame = self.piece(begin, _FIRST_FRAME_BYTES)
        at = max(frame.find(b"Xing"), frame.find(b"Info"))
        return 0 <= at < len(frame) - 8 and bool(frame[at + 7] & _XING_FRAMES)

    def end_missing(self) -> bool:
        """Whether the framing of a file says that its end is missing, in formats of which ffmpeg does not tell."""
        if self.size is None:
            return False
        if self.head.startswith(b"OggS"):
            tail = self.piece(max(0, self.size - _OGG_PAGE_BYTES), _OGG_PAGE_BYTES)
            page = tail[tail.rfind(b"OggS") :]
            whole = len(page) > 26 and len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
            return not (whole and page[5] & _OGG_LAST_PAGE)
        claimed = self._framed_size()
        return claimed is not None and self.size + _SLACK_BYTES < claimed

    def _framed_size(self) -> int | None:
        """The bytes that the header of a WAV, AVI, AIFF, Wave64 or CAF file says there are; None where it leaves that
        open, as programs do that write into a pipe."""
        head = self.head
        if head.startswith((b"RIFF", b"FORM")):
            size = int.from_bytes(head[4:8], "little" if head.startswith(b"RIFF") else "big")
            return size if size < _PIPED_WAV_BYTES else None
        size = 0
        if head.startswith(b"riff"):
            size = int.from_bytes(self.piece(16, 8), "little")
        elif head.startswith(b"caff"):
            size, chunk = 8, b""
            while size < self.size and chunk[:4] != b"data":
                chunk = self.piece(size, 12)
                size += 12 + int.from_bytes(chunk[4:], "big")
        return size if size < _PIPED_BYTES else None


def source_name(source: Source) -> str:
    """What messages call a source, on one line whatever characters its name holds."""
    if source == "-":
        return "standard input"
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        name = name if isinstance(name, str) else "sound data"
    else:
        name = os.fsdecode(source)
    return name if name and name.isprintable() else repr(name)


def open_bytes(source: Source, resources: ExitStack) -> ByteStream:
    """Open a source; what is opened on the way is closed with `resources`, a file object is left to its owner.

    An MP4 that comes through a pipe is first copied to a temporary file, because its index may be at its end.

    Args:
        source: path of a local file, "-" for standard input, or a binary file object.
        resources: takes over the files that are opened here.

    Raises:
        AudioError: the source is missing, a folder, empty or cannot be read.
    """
    name = source_name(source)
    try:
        if source == "-":
            file = _standard_input()
        elif isinstance(source, io.TextIOBase):
            raise AudioError(f'{name}: opened as text: open it with mode "rb"')
        elif hasattr(source, "read"):
            file = source
        else:
            file = resources.enter_context(_open_file(source, name))
        data = ByteStream(file, resources)
        if not data.head:
            raise AudioError(f"{name}: empty (0 bytes)")
        if not data.seekable() and data.head[4:8] in _MP4_BOXES:
            spool = resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            shutil.copyfileobj(data, spool)
            data = ByteStream(spool, resources)
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a file object that is closed
        raise AudioError(f"{name}: cannot be read: {error}") from error
    return data


def _standard_input() -> BinaryIO:
    if sys.stdin is None or sys.stdin.isatty():
        raise AudioError("standard input: nothing is piped into it; pipe a sound file in, or name one")
    return sys.stdin.buffer


def _open_file(path: str | os.PathLike, name: str) -> BinaryIO:
    try:
        if os.path.isdir(path):
            raise AudioError(f"{name}: a folder, not a sound file")
        if is_of_kernel(path):
            raise AudioError(f"{name}: one of the kernel's files, which hold no sound")
        return open(path, "rb")
    except FileNotFoundError as error:
        advice = "; addresses are not opened: download it first" if "://" in name else ""
        raise AudioError(f"{name}: no such file{advice}") from error
    except PermissionError as error:
        raise AudioError(f"{name}: no permission to read it") from error
    except ValueError as error:
        raise AudioError(f"{name}: not a possible file name") from error

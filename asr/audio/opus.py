"""Ogg Opus at the rate that it was recorded at, through libsndfile.

ffmpeg decodes all Opus at 48 kHz. Speech that was recorded at 16 kHz (voice messages, telephony, many corpora) then
loses what it holds from 6.5 kHz on in two resamplings; one word in a hundred of it was read differently.
"""

import os
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from asr.audio.bytestream import ByteStream

BLOCK = 16384  # frames read at a time
_PAGE_HEAD_BYTES = 27
_FIRST_PAGE = 2  # flag in the sixth byte of a page
_HEAD_BYTES = 512  # the identification header is in the first page


def recorded_rate(data: ByteStream) -> int | None:
    """The rate (hertz) below 48 kHz at which an Ogg Opus file says it was recorded; None for anything else."""
    if not data.seekable() or not data.head.startswith(b"OggS"):
        return None
    page = data.piece(0, _HEAD_BYTES)
    start = page.find(b"OpusHead")
    rate = int.from_bytes(page[start + 12 : start + 16], "little") if start >= 0 else 0
    return rate if rate in (8000, 12000, 16000, 24000) else None


def decode_recorded(data: ByteStream) -> Iterator[tuple[np.ndarray, int]] | None:
    """Float32 samples `(samples, channels)` with their rate, piece by piece; None where libsndfile refuses the file.

    A file may be a chain of several (`cat a.opus b.opus`); libsndfile, which reads the first only, is given each.
    """
    import soundfile

    position = data.tell()
    try:
        sounds = [soundfile.SoundFile(_Link(data, start, end)) for start, end in _links(data)]
    except soundfile.LibsndfileError:
        data.seek(position)
        return None

    def pieces() -> Iterator[tuple[np.ndarray, int]]:
        for sound in sounds:
            # In libsndfile 1.2.2 the Opus decoder is out of step after opening, and a little after a seek into the
            # middle, as soundfile makes it after each read of a file that can seek. One seek to the start, and none
            # later, is exact.
            sound.seek(0)
            sound.seekable = lambda: False
            with sound:
                while len(samples := sound.read(BLOCK, dtype="float32", always_2d=True)):
                    yield samples, sound.samplerate

    return pieces()


def _links(data: ByteStream) -> list[tuple[int, int]]:
    """Where each file of a chain begins and ends (bytes)."""
    starts, position = [0], 0
    while position < data.size:
        data.seek(position)
        page = data.read(_PAGE_HEAD_BYTES)
        if len(page) < _PAGE_HEAD_BYTES or not page.startswith(b"OggS"):
            break
        if page[5] & _FIRST_PAGE and position:
            starts.append(position)
        position += _PAGE_HEAD_BYTES + page[26] + sum(data.read(page[26]))
    return list(pairwise([*starts, data.size]))


class _Link:
    """A part of a file as a file of its own, as far as soundfile asks."""

    def __init__(self, data: ByteStream, start: int, end: int) -> None:
        self._data, self._start, self._end = data, start, end
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end - self._start}
        self._position = base[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, count: int) -> bytes:
        self._data.seek(self._start + self._position)
        read = self._data.read(min(count, max(0, self._end - self._start - self._position)))
        self._position += len(read)
        return read

    def write(self, data: bytes) -> int:
        raise OSError("opened to be read")

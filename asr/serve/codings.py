"""The bytes that clients send, as samples."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import numpy as np

from asr.audio.files import AudioFile
from asr.errors import AsrError, AudioError
from asr.serve.limits import BadMessage, Overload

RATE = 16000  # hertz at which containers are decoded
BLOCK = 0.1  # s of a container that are handed on at a time
_MP4 = b"ftyp"  # in its first bytes; its index may be at its end, for which it would have to be kept


def _mulaw() -> np.ndarray:
    code = ~np.arange(256, dtype=np.uint8)
    size = (((code & 15).astype(np.int32) << 3) + 132 << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -size, size).astype(np.int16)


def _alaw() -> np.ndarray:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    shift, size = (code >> 4) & 7, ((code & 15).astype(np.int32) << 4) + 8
    size = np.where(shift > 0, size + 256 << np.maximum(shift, 1) - 1, size)
    return np.where(code & 128, size, -size).astype(np.int16)


_TABLES = {"mulaw": _mulaw(), "alaw": _alaw()}  # ITU-T G.711
_TYPES = {"s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}


class Samples:
    """Bytes of one coding as samples `(time,)` or `(time, channels)`, in pieces that need not hold whole samples.

    Args:
        coding: `s16le`, `s32le`, `f32le`, `mulaw` or `alaw`.
        channels: whose samples alternate.
    """

    def __init__(self, coding: str, channels: int = 1) -> None:
        self._table = _TABLES.get(coding)
        self._type = np.dtype(np.uint8 if self._table is not None else _TYPES[coding])
        self._channels, self._rest = channels, b""

    def __call__(self, data: bytes) -> np.ndarray:
        """The samples that are whole."""
        data = self._rest + data if self._rest else data
        frame = self._type.itemsize * self._channels
        whole = len(data) - len(data) % frame
        self._rest = data[whole:]
        samples = np.frombuffer(data, self._type, whole // self._type.itemsize)
        samples = samples if self._table is None else self._table[samples]
        return samples if self._channels == 1 else samples.reshape(-1, self._channels)


class Container:
    """A sound file of any format that arrives piece by piece, decoded in a thread of its own.

    Args:
        heard: is given each block of samples, at `RATE`, in that thread.
        ended: is called there when no more come, with what was wrong.
        most: bytes that may wait.
    """

    def __init__(self, heard: Callable[[np.ndarray], None], ended: Callable[[Exception | None], None], most: int):
        self._heard, self._ended, self._most = heard, ended, most
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waiting = 0
        self._left = b""
        self._head = b""
        threading.Thread(target=self._decode, daemon=True, name="container").start()

    def put(self, data: bytes) -> None:
        """The next bytes; none: the file ends.

        Raises:
            BadMessage: it is an MP4.
            Overload: too much is waiting.
        """
        if len(self._head) < 8:
            self._head += data[:8]
            if self._head[4:8] == _MP4:
                raise BadMessage("MP4 cannot be decoded as it comes: send the whole file to /v1/audio/transcriptions")
        self._waiting += len(data)
        if self._waiting > self._most:
            raise Overload("the sound comes faster than it is decoded")
        self._pieces.put(data)

    def read1(self, count: int) -> bytes:
        """What a file has: the next bytes, at most so many, none at the end."""
        if not self._left:
            self._left = self._pieces.get()
            self._waiting -= len(self._left)
            if not self._left:
                self._pieces.put(b"")
        data, self._left = self._left[:count], self._left[count:]
        return data

    read = read1

    def _decode(self) -> None:
        failure: Exception | None = None
        try:
            with AudioFile(self, RATE) as file:
                for block in file.blocks(BLOCK):
                    self._heard(block)
        except AsrError as error:
            failure = error
        except Exception as error:  # what a decoder makes of damage must not end in silence
            failure = AudioError(f"the sound cannot be decoded: {type(error).__name__}")
        self._ended(failure)

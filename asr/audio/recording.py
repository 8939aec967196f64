"""Keeps sound on the disk as it comes: whatever ends the program, the file opens and holds all but its last moment."""

from __future__ import annotations

import struct
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from asr.errors import AudioError

FULL_SCALE = 32767
LARGEST_SIZE = 0xFFFFFFFF  # of a RIFF chunk; readers take it for "until the end of the file"
_WAV_HEADER = "<4sI4s4sIHHIIHH4sI"
_BLOCK_SIZE_AT, _TOTAL_AT = 8, 21  # bytes from the start of a FLAC file, whose first block is STREAMINFO (RFC 9639)


def check_new(path: str | PathLike[str]) -> None:
    """Whether a `Recorder` can write there, as far as can be told without making the file.

    Raises:
        AudioError: the file exists, its folder does not, or it has another suffix than .flac and .wav.
    """
    path = Path(path)
    if path.suffix.lower() not in _ENCODERS:
        raise AudioError(f"{path}: sound is saved as .flac or .wav: give a name that ends so")
    if path.exists():
        raise AudioError(f"{path}: exists already: name another file, or move it away")
    if not path.parent.is_dir():
        raise AudioError(f"{path}: cannot be written: there is no folder {path.parent}")


class Recorder:
    """Writes mono sound to a FLAC or WAV file of 16 bits, by the suffix of its name.

    The header is kept in step with what has been written: after a kill the file opens and holds all of it (WAV) or all
    but the last 4096 samples (FLAC).

    Args:
        path: a file that does not exist yet, ending in .flac or .wav.
        rate: of the samples (hertz).

    Raises:
        AudioError: the file exists, cannot be made, or has another suffix.
    """

    def __init__(self, path: str | PathLike[str], rate: int) -> None:
        check_new(path)
        self.path, self._rate = Path(path), rate
        try:
            self._file = self.path.open("xb+", buffering=0)
        except OSError as error:
            raise AudioError(f"{path}: cannot be written: {error.strerror}") from error
        self._encoder: _Encoder = self._guard(lambda: _ENCODERS[self.path.suffix.lower()](self._file, rate))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, samples: np.ndarray) -> None:
        """Appends samples `(samples,)` in [-1, 1]; what is louder is clipped.

        Raises:
            AudioError: the disk is full or gone.
        """
        pcm = np.clip(np.rint(samples * FULL_SCALE), -FULL_SCALE - 1, FULL_SCALE).astype("<i2")
        self._guard(lambda: self._encoder.write(pcm))

    def write_silence(self, seconds: float) -> None:
        """Appends silence, as `write` does sound."""
        for start in range(0, samples := round(seconds * self._rate), self._rate):
            self.write(np.zeros(min(self._rate, samples - start), np.float32))

    def close(self) -> None:
        """Completes the file.

        Raises:
            AudioError: the disk is full or gone.
        """
        if not self._file.closed:
            try:
                self._guard(self._encoder.close)
            finally:
                self._file.close()

    def _guard(self, action: Callable) -> _Encoder | None:
        from soundfile import LibsndfileError

        try:
            return action()
        except (OSError, LibsndfileError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise AudioError(f"{self.path}: cannot be written: {reason}") from error


class _Encoder(Protocol):
    def write(self, pcm: np.ndarray) -> None: ...
    def close(self) -> None: ...


class _Wav:
    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file, self._bytes = file, 0
        header = (b"RIFF", 0, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", 0)
        file.write(struct.pack(_WAV_HEADER, *header))

    def write(self, pcm: np.ndarray) -> None:
        _write_all(self._file, pcm.tobytes())
        self._bytes += 2 * len(pcm)
        header_bytes = struct.calcsize(_WAV_HEADER)
        for position, size in ((4, header_bytes - 8 + self._bytes), (header_bytes - 4, self._bytes)):
            self._file.seek(position)
            self._file.write(min(size, LARGEST_SIZE).to_bytes(4, "little"))
        self._file.seek(0, 2)

    def close(self) -> None:
        pass


class _Flac:
    """libFLAC writes each frame once it is complete, but the length, without which libsndfile reads no file, only
    in the end; here it is stated after each write."""

    def __init__(self, file: BinaryIO, rate: int) -> None:
        import soundfile

        self._file, self._samples = file, 0
        self._sound = soundfile.SoundFile(file.name, "w", rate, 1, "PCM_16", format="FLAC")

    def write(self, pcm: np.ndarray) -> None:
        if not len(pcm):
            return
        self._sound.write(pcm)
        self._samples += len(pcm)
        self._file.seek(0)
        header = self._file.read(_TOTAL_AT + 5)
        block = int.from_bytes(header[_BLOCK_SIZE_AT : _BLOCK_SIZE_AT + 2], "big")
        written = (self._samples - 1) // block * block  # libFLAC holds a frame back until a further sample has come
        bits_above = header[_TOTAL_AT] >> 4 << 36
        self._file.seek(_TOTAL_AT)
        self._file.write((bits_above | written).to_bytes(5, "big"))

    def close(self) -> None:
        if not self._samples:
            self._sound.write(np.zeros(1, "<i2"))  # libsndfile makes no header for nothing
        self._sound.close()


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


_ENCODERS: dict[str, Callable[[BinaryIO, int], _Encoder]] = {".flac": _Flac, ".wav": _Wav}

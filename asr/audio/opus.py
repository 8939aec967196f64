"""Ogg Opus at the rate that it was recorded at, through libsndfile.

ffmpeg decodes all Opus at 48 kHz. Speech that was recorded at 16 kHz (voice messages, telephony, many corpora) then
loses what it holds from 6.5 kHz on in two resamplings; one word in a hundred of it was read differently.
"""

from collections.abc import Iterator

import numpy as np

from asr.audio.bytestream import ByteStream

BLOCK = 16384  # frames read at a time
_HEAD_BYTES = 512  # the identification header is in the first page


def recorded_rate(data: ByteStream) -> int | None:
    """The rate (hertz) below 48 kHz at which an Ogg Opus file says it was recorded; None for anything else."""
    if not data.seekable() or not data.head.startswith(b"OggS"):
        return None
    position = data.tell()
    data.seek(0)
    page = data.read(_HEAD_BYTES)
    data.seek(position)
    start = page.find(b"OpusHead")
    rate = int.from_bytes(page[start + 12 : start + 16], "little") if start >= 0 else 0
    return rate if rate in (8000, 12000, 16000, 24000) else None


def decode_recorded(data: ByteStream) -> Iterator[tuple[np.ndarray, int]] | None:
    """Float32 samples `(samples, channels)` with their rate, piece by piece; None where libsndfile refuses the file."""
    import soundfile

    position = data.tell()
    data.seek(0)
    try:
        sound = soundfile.SoundFile(data)
    except soundfile.LibsndfileError:
        data.seek(position)
        return None
    # In libsndfile 1.2.2 the Opus decoder is out of step after opening, and a little after a seek into the middle, as
    # soundfile makes it after each read of a file that can seek. One seek to the start, and none later, is exact.
    sound.seek(0)
    sound.seekable = lambda: False

    def pieces() -> Iterator[tuple[np.ndarray, int]]:
        with sound:
            while len(samples := sound.read(BLOCK, dtype="float32", always_2d=True)):
                yield samples, sound.samplerate

    return pieces()

"""The header of a WAV that comes through a pipe.

ffmpeg holds the first 64 KiB of a WAV back to look for S/PDIF in them, 2 s of speech at 16 kHz: a shorter one was not
heard before its pipe was closed.
"""

from __future__ import annotations

from asr.audio.bytestream import ByteStream
from asr.audio.raw import RawFormat
from asr.errors import AudioError

_PCM, _EXTENSIBLE = 1, 0xFFFE  # tags of codings
_CODINGS = {8: "u8", 16: "s16le", 24: "s24le", 32: "s32le"}  # by the bits of a sample
_LONGEST_HEADER = 1 << 16  # bytes
_UNKNOWN = 0x7FFF0000  # bytes: programs that write into a pipe claim this much sound or more, or none
_TAG_OF_EXTENSIBLE = 24  # bytes from the start of the format chunk


def piped_wave(data: ByteStream) -> RawFormat | None:
    """What a WAV header says of plain PCM, with the stream at the first sample and its end where the samples end.

    None for any other content, with the stream as it was.
    """
    seen, form = b"", None

    def take(count: int) -> bytes:
        nonlocal seen
        part = b""
        while len(part) < count and (more := data.read(count - len(part))):
            part += more
        seen += part
        return part

    if data.head[:4] == b"RIFF" and data.head[8:12] == b"WAVE":
        take(12)
        while len(seen) < _LONGEST_HEADER and len(chunk := take(8)) == 8:
            kind, size = chunk[:4], int.from_bytes(chunk[4:], "little")
            if kind == b"data" and form is not None:
                data.limit(None if size == 0 or size >= _UNKNOWN else size)
                return form
            if kind == b"data" or size > _LONGEST_HEADER:
                break
            content = take(size + size % 2)
            if kind == b"fmt ":
                form = _plain(content)
                if form is None:
                    break
    data.give_back(seen)
    return None


def _plain(chunk: bytes) -> RawFormat | None:
    tag, channels, rate, _, frame, bits = (
        int.from_bytes(chunk[start:end], "little")
        for start, end in ((0, 2), (2, 4), (4, 8), (8, 12), (12, 14), (14, 16))
    )
    if tag == _EXTENSIBLE:
        tag = int.from_bytes(chunk[_TAG_OF_EXTENSIBLE : _TAG_OF_EXTENSIBLE + 2], "little")
    if tag != _PCM or bits not in _CODINGS or frame != channels * bits // 8:
        return None
    try:
        return RawFormat(_CODINGS[bits], rate, channels)
    except AudioError:
        return None

"""Reading sound from standard input and from file objects that cannot seek."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asr.audio.bytestream import ByteStream
from asr.audio.files import AudioFile, read_audio
from tests.audio.makers import (
    FORMATS,
    NOT_TRIMMED,
    SECONDS,
    SOUND,
    Pipe,
    check_sound,
    with_soundfile,
)
from tests.recordings import SAMPLE
from tests.sound_server import guarded

READ_STANDARD_INPUT = """
import sys, numpy as np
from asr.audio.files import AudioFile
with AudioFile("-") as file:
    assert file.name == "standard input"
    for block in file.blocks(0.1):
        sys.stdout.buffer.write(block.tobytes())
        sys.stdout.buffer.flush()
    assert file.warning is None, file.warning
"""


def reader(**options) -> subprocess.Popen:
    """A process that decodes its standard input to raw floats."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", READ_STANDARD_INPUT]
    return guarded(subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options))


PIPED = ["wav s16", "aiff", "flac", "ogg opus", "mp3", "m4a", "aac", "webm", "mp4 video", "mpeg-ts"]


@pytest.mark.parametrize("name", PIPED)
def test_pipes(name: str):
    out, _ = reader().communicate(FORMATS[name](SECONDS), timeout=60)
    lag = 0.08 if name in NOT_TRIMMED else 0.0
    check_sound(np.frombuffer(out, np.float32), slack=0.03, lag=lag)


@pytest.mark.parametrize("claimed", [0, 0xFFFFFFFF])
def test_pipe_gives_sound_while_it_grows(claimed: int):
    data = bytearray(with_soundfile(SOUND, "WAV"))
    data[40:44] = claimed.to_bytes(4, "little")
    process = reader(bufsize=0)  # communicate() would lose what a buffer holds
    process.stdin.write(data[: len(data) // 2])
    early = b""
    while len(early) < 4 * 14400 and (more := process.stdout.read(4 * 14400 - len(early))):
        early += more  # 0.9 s of the 1.5 s that were sent
    assert len(early) == 4 * 14400
    late, _ = process.communicate(data[len(data) // 2 :], timeout=60)
    check_sound(np.frombuffer(early + late, np.float32))


def test_nothing_from_a_pipe():
    process = reader(stderr=subprocess.PIPE)
    _, errors = process.communicate(b"", timeout=60)
    assert b"AudioError: standard input: empty" in errors


def test_a_file_object_that_cannot_seek():
    for name in ("wav s16", "m4a"):
        check_sound(read_audio(Pipe(FORMATS[name](SECONDS))), slack=0.03)


@pytest.mark.parametrize(("form", "subtype"), [("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAVEX", "PCM_16")])
def test_a_piped_wav_ends_where_its_header_says(form: str, subtype: str):
    data = with_soundfile(np.stack([SOUND] * 2, 1), form, subtype)
    check_sound(read_audio(Pipe(data + b"LIST\x00\x10\x00\x00" + 4096 * b"\x55")))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ctrl_c_is_heard_wherever_it_comes(monkeypatch, number):
    """Also where ffmpeg is about to ask for more: an exception that leaves what it calls is lost."""
    calls, read = itertools.count(1), ByteStream.read

    def interrupted(self: ByteStream, count: int) -> bytes:
        if next(calls) == number:
            signal.raise_signal(signal.SIGINT)
        return read(self, count)

    monkeypatch.setattr(ByteStream, "read", interrupted)
    before = signal.getsignal(signal.SIGINT)
    reader, writer = os.pipe()
    os.write(writer, SAMPLE.read_bytes()[:60_000])  # what a pipe holds; it stays open
    with os.fdopen(reader, "rb") as pipe, pytest.raises(KeyboardInterrupt), AudioFile(pipe, 16000) as file:
        for _ in file.blocks():
            pass
    os.close(writer)
    assert signal.getsignal(signal.SIGINT) is before

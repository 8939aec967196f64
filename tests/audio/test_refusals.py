"""What is said of sources that are missing or hold no sound."""

import io
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asr.audio.files import AudioFile, read_audio
from asr.errors import AudioError
from tests.audio.makers import (
    SOUND,
    picture,
    silent_video,
    with_av,
    with_soundfile,
)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("sound.wav", with_soundfile(SOUND, "WAV"))
    return buffer.getvalue()


def protected() -> bytes:
    """An AAC file whose frames have intact headers and noise inside."""
    data = bytearray(with_av(SOUND, "adts", "aac"))
    noise, position = np.random.default_rng(0), 0
    while position + 7 < len(data):
        size = (data[position + 3] & 3) << 11 | data[position + 4] << 3 | data[position + 5] >> 5
        data[position + 7 : position + size] = b"\xe0" + noise.bytes(size - 8)
        position += size
    return bytes(data)


NO_SOUND = {
    "empty": (lambda: b"", "empty"),
    "text": (lambda: b"Meeting notes: nobody spoke.\n" * 100, "not a sound"),
    "short text": (lambda: b"hi\n", "not a sound"),
    "subtitles": (lambda: b"1\n00:00:01,000 --> 00:00:02,000\nHello\n\n" * 20, "not a sound"),
    "jpeg": (lambda: picture("mjpeg"), "not a sound"),
    "png": (lambda: picture("png"), "not a sound"),
    "pdf": (lambda: b"%PDF-1.7\n" + np.random.default_rng(1).bytes(30000), "not a sound"),
    "zip": (zipped, "not a sound"),
    "python": (lambda: Path(sys.executable).read_bytes()[:200000], "not a sound"),
    "noise": (lambda: np.random.default_rng(2).bytes(100000), "not a sound"),
    "zeros": (lambda: bytes(100000), "not a sound"),
    "silent video": (silent_video, "no sound track"),
    "half an mp4": (lambda: (data := with_av(SOUND, "mp4", "aac"))[: len(data) // 2], "without its index"),
    "wav header": (lambda: with_soundfile(SOUND, "WAV")[:20], "not a sound"),
    "undecodable": (protected, "can be decoded"),
    "hls": (lambda: b"#EXTM3U\n#EXTINF:9,\nhttp://example.invalid/a.ts\n#EXT-X-ENDLIST\n", "playlist"),
    "concat": (lambda: b"ffconcat version 1.0\nfile '/etc/passwd'\n", "playlist"),
    "sdp": (lambda: b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n", "not a sound"),
}


@pytest.mark.parametrize("extension", ["wav", "mp3", "m3u8"])
@pytest.mark.parametrize("name", NO_SOUND)
def test_what_is_no_sound(name: str, extension: str, tmp_path: Path):
    make, message = NO_SOUND[name]
    path = tmp_path / f"file.{extension}"
    path.write_bytes(make())
    with pytest.raises(AudioError, match=message) as caught:
        read_audio(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert " at 0x" not in str(caught.value)


@pytest.mark.parametrize("seed", range(30))
def test_noise_is_never_taken_for_sound(seed: int):
    with pytest.raises(AudioError):
        read_audio(io.BytesIO(np.random.default_rng(seed).bytes(4 ** (seed % 9 + 1))))


def test_missing_file_folder_and_impossible_name(tmp_path: Path):
    for source, message in [
        (tmp_path / "gone.wav", "no such file"),
        ("http://example.invalid/a.wav", "no such file; addresses are not opened"),
        (tmp_path, "a folder"),
        ("", "no such file"),
        ("a\0b", "not a possible file name"),
        ("x" * 5000, "cannot be read"),
    ]:
        with pytest.raises(AudioError, match=message):
            AudioFile(source)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path):
    path = tmp_path / "a.wav"
    path.write_bytes(with_soundfile(SOUND, "WAV"))
    path.chmod(0)
    with pytest.raises(AudioError, match="no permission"):
        AudioFile(path)


def test_permission_denied_by_the_system(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(AudioError, match=r"a\.wav: no permission to read it"):
        AudioFile("a.wav")


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs a /proc")
@pytest.mark.parametrize("name", ["/proc/self/maps", "/proc/kmsg"])
def test_files_of_the_kernel_are_refused(name: str):
    """Some of them give nothing until the kernel has something to say."""
    if not os.access(name, os.R_OK):
        pytest.skip(f"no {name} here")
    with pytest.raises(AudioError, match="one of the kernel's files"):
        AudioFile(name)

"""Sound kept on the disk: complete when closed, and up to the last moment when the program is killed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from asr.audio.files import AudioFile, read_audio
from asr.audio.recording import Recorder
from asr.errors import AudioError

RATE = 48000
KILLED = """
import os, signal, sys
import numpy as np
from asr.audio.recording import Recorder
samples = np.load(sys.argv[2])
recorder = Recorder(sys.argv[1], int(sys.argv[3]))
for start in range(0, len(samples), 999):
    recorder.write(samples[start : start + 999])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def samples() -> np.ndarray:
    return (0.1 * np.random.default_rng(0).standard_normal(5 * RATE + 123)).astype(np.float32)


def in_16_bits(samples: np.ndarray) -> np.ndarray:
    return np.rint(samples * 32767).astype(np.int16)


@pytest.mark.parametrize("suffix", ["flac", "wav", "FLAC"])
def test_a_closed_file_holds_every_sample(tmp_path, samples, suffix):
    path = tmp_path / f"take.{suffix}"
    with Recorder(path, RATE) as recorder:
        for part in np.array_split(samples, 37):
            recorder.write(part)
    written, rate = soundfile.read(path, dtype="int16")
    assert rate == RATE
    np.testing.assert_array_equal(written, in_16_bits(samples))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("suffix", "rate", "missing"), [("flac", 48000, 4097), ("flac", 16000, 4097), ("wav", 48000, 0)]
)
def test_after_sigkill_the_file_opens_and_holds_all_but_the_last_moment(tmp_path, samples, suffix, rate, missing):
    path = tmp_path / f"take.{suffix}"
    np.save(tmp_path / "samples.npy", samples)
    done = subprocess.run([sys.executable, "-c", KILLED, path, tmp_path / "samples.npy", str(rate)])
    assert done.returncode == -signal.SIGKILL
    written, _ = soundfile.read(path, dtype="int16")
    assert len(samples) - missing <= len(written) <= len(samples)
    np.testing.assert_array_equal(written, in_16_bits(samples)[: len(written)])
    with AudioFile(path, rate) as file:
        assert file.duration == pytest.approx(len(written) / rate, abs=0.01)
        assert sum(map(len, file.blocks())) >= len(samples) - missing
        assert file.warning is None


def test_silence_of_any_length_can_be_written(tmp_path):
    path = tmp_path / "take.flac"
    with Recorder(path, 16000) as recorder:
        recorder.write(np.full(100, 0.5, np.float32))
        recorder.write_silence(3.3)
        recorder.write(np.full(100, 0.5, np.float32))
    written = soundfile.read(path)[0]
    assert len(written) == 200 + 52800
    assert np.count_nonzero(written) == 200


def test_what_is_too_loud_is_clipped(tmp_path):
    path = tmp_path / "loud.flac"
    with Recorder(path, 16000) as recorder:
        recorder.write(np.array([-3, -1, 0, 1, 3], np.float32))
    assert soundfile.read(path, dtype="int16")[0].tolist() == [-32768, -32767, 0, 32767, 32767]


@pytest.mark.parametrize("suffix", ["flac", "wav"])
def test_a_file_without_samples_is_valid(tmp_path, suffix):
    path = tmp_path / f"nothing.{suffix}"
    Recorder(path, 16000).close()
    assert len(read_audio(path)) <= 1


def test_an_earlier_recording_is_never_overwritten(tmp_path):
    path = tmp_path / "take.flac"
    path.write_bytes(b"yesterday")
    with pytest.raises(AudioError, match=r"take\.flac: exists already"):
        Recorder(path, 16000)
    assert path.read_bytes() == b"yesterday"


@pytest.mark.parametrize(("name", "line"), [("take.mp3", r"\.flac or \.wav"), ("missing/take.wav", "no folder")])
def test_what_cannot_be_written_is_told_in_one_line(tmp_path, name, line):
    with pytest.raises(AudioError, match=line):
        Recorder(tmp_path / name, 16000)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_told_in_one_line(tmp_path, samples):
    recorder = Recorder(tmp_path / "take.wav", RATE)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, recorder._file.fileno())
    with pytest.raises(AudioError, match=r"take\.wav: cannot be written: No space left"):
        recorder.write(samples)
    os.close(full)

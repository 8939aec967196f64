"""Reading sound of all formats, from paths and file objects, whole or damaged."""

import io
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.files import AudioFile, read_audio
from tests.audio.makers import (
    EXPECTED,
    FORMATS,
    NOT_TRIMMED,
    SECONDS,
    SOUND,
    check_sound,
    chirp,
    with_av,
    with_soundfile,
)


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, tmp_path: Path):
    path = tmp_path / "no extension"
    path.write_bytes(FORMATS[name](SECONDS))
    with AudioFile(path) as file:
        blocks = list(file.blocks(0.5))
        assert file.warning is None
        lag = 0.08 if name in NOT_TRIMMED else 0.0
        if file.duration is not None:
            assert file.duration == pytest.approx(SECONDS, abs=0.05 + lag)
    assert {len(block) for block in blocks[:-1]} == {8000}
    check_sound(np.concatenate(blocks), lag=lag)


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_rates_out(rate: int):
    samples = read_audio(io.BytesIO(with_soundfile(SOUND, "WAV")), rate)
    assert abs(len(samples) - SECONDS * rate) <= 1
    assert np.corrcoef(samples, chirp(SECONDS, rate)[: len(samples)])[0, 1] > 0.99


def test_exact_samples_at_the_same_rate():
    samples = np.random.default_rng(0).integers(-32768, 32768, 5000).astype(np.int16)
    expected = samples.astype(np.float32) / 32768
    np.testing.assert_array_equal(read_audio(io.BytesIO(with_soundfile(samples, "WAV", rate=16000))), expected)
    eighths = np.arange(-128, 128, dtype=np.float32) / 128
    np.testing.assert_array_equal(read_audio(io.BytesIO(with_soundfile(eighths, "WAV", "PCM_U8", 16000))), eighths)


def test_no_numbers_become_silence():
    samples = np.array([0.5, np.nan, np.inf, -np.inf, 1e38, -0.5], dtype=np.float32)
    for subtype in ("FLOAT", "DOUBLE"):
        out = read_audio(io.BytesIO(with_soundfile(samples, "WAV", subtype, 16000)))
        np.testing.assert_array_equal(out, np.array([0.5, 0, 0, 0, 0, -0.5], dtype=np.float32))


@pytest.mark.parametrize("form", ["WAV", "FLAC", "MP3"])
def test_a_hundredth_of_a_second(form: str):
    assert len(read_audio(io.BytesIO(with_soundfile(chirp(0.01, 16000), form, rate=16000)))) == 160


@pytest.mark.parametrize("form", ["WAV", "AIFF", "CAF", "OGG"])
def test_no_samples_give_no_blocks(form: str):
    with AudioFile(io.BytesIO(with_soundfile(np.empty(0), form))) as file:
        assert list(file.blocks()) == []
        assert file.warning is None
    assert read_audio(io.BytesIO(with_soundfile(np.empty(0), form))).shape == (0,)


@pytest.mark.parametrize(("name", "form"), [("sound.mp3", "WAV"), ("sound.wav", "MP3"), ("sound.txt", "FLAC")])
def test_wrong_extensions(name: str, form: str, tmp_path: Path):
    (tmp_path / name).write_bytes(with_soundfile(SOUND, form))
    check_sound(read_audio(tmp_path / name))


@pytest.mark.parametrize(
    "name", ["a b.wav", "-i.wav", "звук 音.wav", "100%d.wav", "concat:x", "http:", "x.m3u8", "pipe:0", "a\nb.wav"]
)
def test_names_are_only_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(with_soundfile(SOUND, "WAV"))
    with AudioFile(name) as file:
        check_sound(np.concatenate(list(file.blocks())))
        assert "\n" not in file.name


@pytest.mark.parametrize("name", ["wav s16", "aiff", "flac", "ogg vorbis", "ogg opus", "mp3", "webm", "mkv flac"])
def test_cut_off(name: str):
    data = FORMATS[name](9.0)
    with AudioFile(io.BytesIO(data[: len(data) * 3 // 5])) as file:
        samples = np.concatenate(list(file.blocks()))
        assert "cut off" in file.warning
        assert "\n" not in file.warning
        if file.duration is not None and name in {"wav s16", "ogg vorbis", "ogg opus"}:
            assert file.duration == pytest.approx(len(samples) / 16000, abs=0.05)
    assert 2.0 < len(samples) / 16000 < 8.0
    check_sound(samples, chirp(9.0, 16000)[: len(samples)])


@pytest.mark.parametrize("name", ["flac", "mp3", "ogg opus"])
def test_damage_in_the_middle_loses_only_that(name: str):
    data = bytearray(FORMATS[name](9.0))
    middle = len(data) // 2
    data[middle : middle + len(data) // 20] = np.random.default_rng(0).bytes(len(data) // 20)
    with AudioFile(io.BytesIO(data)) as file:
        samples = np.concatenate(list(file.blocks()))
        assert "damaged" in file.warning
    assert len(samples) > 6.0 * 16000
    assert np.corrcoef(samples[:48000], EXPECTED)[0, 1] > 0.99


def test_a_source_that_fails_on_the_way_keeps_what_came_before():
    class Failing(io.BytesIO):
        given = 0

        def read1(self, size: int = -1) -> bytes:
            data = super().read1(size)
            self.given += len(data)
            if self.given > 600000:
                raise OSError(5, "Input/output error")
            return data

    with AudioFile(Failing(with_soundfile(chirp(9.0), "WAV"))) as file:
        samples = np.concatenate(list(file.blocks()))
        assert "cut off" in file.warning
    check_sound(samples, chirp(9.0, 16000)[: len(samples)])
    assert len(samples) > 16000


@pytest.mark.parametrize("claimed", [0, 10**9, 0x7FFFFFFF, 0xFFFFFFFF])
def test_lying_wav_headers(claimed: int):
    data = bytearray(with_soundfile(SOUND, "WAV"))
    data[40:44] = claimed.to_bytes(4, "little")
    data[4:8] = min(claimed + 36, 0xFFFFFFFF).to_bytes(4, "little")
    with AudioFile(io.BytesIO(data)) as file:
        assert file.duration is None or file.duration == pytest.approx(SECONDS, abs=0.01)
        check_sound(np.concatenate(list(file.blocks())))


def test_metadata_that_is_no_text():
    data = with_av(SOUND, "mp3", "libmp3lame")
    tag = b"TIT2\x00\x00\x00\x05\x00\x00\x03\xff\xfe\x80\xe9"
    check_sound(read_audio(io.BytesIO(b"ID3\x04\x00\x00\x00\x00\x00" + bytes([len(tag)]) + tag + data)), slack=0.08)


def test_chained_ogg():
    later = with_soundfile(chirp(SECONDS, start=SECONDS), "OGG", "VORBIS")
    samples = read_audio(io.BytesIO(with_soundfile(SOUND, "OGG", "VORBIS") + later))
    check_sound(samples[:48000], EXPECTED)
    check_sound(samples[48000:], chirp(SECONDS, 16000, start=SECONDS), lag=0.02)


def test_chained_ogg_that_ffmpeg_cannot_follow_keeps_its_first_part():
    later = chirp(SECONDS, 22050, start=SECONDS)
    later = with_soundfile(np.stack([later, later], axis=1), "OGG", "VORBIS", 22050)
    with AudioFile(io.BytesIO(with_soundfile(SOUND, "OGG", "VORBIS") + later)) as file:
        check_sound(np.concatenate(list(file.blocks())))
        assert "cut off" in file.warning


def test_rate_that_changes_on_the_way():
    later = with_av(chirp(SECONDS, 22050, start=SECONDS), "adts", "aac", rate=22050)
    samples = read_audio(io.BytesIO(with_av(SOUND, "adts", "aac") + later))
    assert len(samples) / 16000 == pytest.approx(2 * SECONDS, abs=0.25)
    assert np.std(samples[:48000]) == pytest.approx(np.std(samples[-48000:]), rel=0.05)


def test_member_of_a_tar(tmp_path: Path):
    path = tmp_path / "sounds.tar"
    (tmp_path / "a.opus").write_bytes(FORMATS["ogg opus"](SECONDS))
    with tarfile.open(path, "w") as tar:
        tar.add(tmp_path / "a.opus", "a.opus")
    with tarfile.open(path) as tar:
        member = tar.extractfile("a.opus")
        check_sound(read_audio(member))
        assert not member.closed


@pytest.mark.parametrize("minutes", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_length(minutes: int, tmp_path: Path):
    path = tmp_path / "long.wav"
    with soundfile.SoundFile(path, "w", 16000, 1, "PCM_16") as file:
        for minute in range(minutes):
            file.write(chirp(60, 16000, start=60 * minute))
    tracemalloc.start()
    with AudioFile(path, 8000) as file:
        assert file.duration == 60 * minutes
        assert sum(len(block) for block in file.blocks()) == 60 * minutes * 8000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6


def test_importing_costs_little():
    code = "import sys, asr.audio.files; print([m for m in ('av', 'soxr', 'torch', 'soundfile') if m in sys.modules])"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True).stdout == "[]\n"


def test_opus_recorded_at_16_khz_keeps_its_highest_frequencies(tmp_path):
    """ffmpeg's decoder at 48 kHz and the way back lose them; libsndfile decodes at the rate of the recording."""
    noise = np.random.default_rng(0).normal(0, 0.1, 16000 * 3).astype(np.float32)
    path = tmp_path / "voice message.opus"
    soundfile.write(path, noise, 16000, format="OGG", subtype="OPUS")
    with AudioFile(path) as file:
        got = np.concatenate(list(file.blocks()))
        assert file.warning is None
    assert len(got) == len(noise)
    spectrum, frequency = np.abs(np.fft.rfft(got)) ** 2, np.fft.rfftfreq(len(got), 1 / 16000)
    band = lambda low, high: spectrum[(frequency >= low) & (frequency < high)].mean()  # noqa: E731
    assert band(7500, 7800) > 0.3 * band(4000, 7000)


@pytest.mark.parametrize("kbit", [12, 24, 64])
def test_opus_read_in_blocks_is_what_ffmpeg_decodes(tmp_path, kbit):
    """libsndfile's Opus is out of step unless it is read from the start without a seek."""
    import av

    sweep = np.sin(np.cumsum(np.linspace(200, 3000, 16000 * 8)) * 2 * np.pi / 16000).astype(np.float32)
    sweep[40000:56000] = np.random.default_rng(1).normal(0, 0.2, 16000)
    path = tmp_path / "a.ogg"
    with av.open(str(path), "w", format="ogg") as out:
        stream = out.add_stream("libopus", rate=16000, layout="mono")
        stream.bit_rate = 1000 * kbit
        for start in range(0, len(sweep), 320):
            frame = av.AudioFrame.from_ndarray(sweep[None, start : start + 320], "flt", "mono")
            frame.sample_rate = 16000
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    got = read_audio(path)
    with av.open(str(path)) as container:
        by_ffmpeg = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])[::3]
    size = min(len(got), len(by_ffmpeg))
    fits = [np.corrcoef(got[:size], np.roll(by_ffmpeg[:size], -shift))[0, 1] for shift in range(-2, 110)]
    assert max(fits) > 0.97


@pytest.mark.parametrize("rate", [16000, 44100, 8000])
@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG"])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_channels_can_be_kept_apart(rate: int, form: str, channels: int):
    sound = np.stack([(i + 1) / channels * chirp(2.0, rate) for i in range(channels)], axis=1)
    data = with_soundfile(sound, form, "OPUS" if form == "OGG" and rate != 44100 else None, rate)
    with AudioFile(io.BytesIO(data), separate=True) as file:
        apart = np.concatenate(list(file.blocks(0.3)))
    mixed = read_audio(io.BytesIO(data))
    assert apart.shape == (len(mixed), channels)
    np.testing.assert_allclose(apart.mean(1), mixed, atol=1e-5)
    if form != "OGG":
        for i in range(channels):
            np.testing.assert_allclose(apart[:, i], (i + 1) * apart[:, 0], atol=2e-4)

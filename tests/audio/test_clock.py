"""Times are those of the container's clock, and damage is judged by it."""

import io
import os
import threading
import time

import av
import numpy as np
import pytest

from asr.audio.files import AudioFile, read_audio
from asr.audio.raw import CODINGS, RawFormat
from asr.audio.timeline import Timeline
from asr.errors import AudioError
from tests.audio.makers import Pipe, chirp, film, with_av, with_soundfile

RATE = 16000
FIRST = chirp(2.048, RATE)
SECOND = chirp(2.048, RATE, start=4.0)
FILMS = [("matroska", "pcm_s16le"), ("mov", "pcm_s16le"), ("mp4", "aac")]


def read(data: bytes, **options) -> tuple[np.ndarray, str | None]:
    with AudioFile(io.BytesIO(data), **options) as file:
        return np.concatenate(list(file.blocks())), file.warning


def check_at(samples: np.ndarray, begin: float, part: np.ndarray):
    """The part stands at that time (seconds), within the delay of an encoder."""
    start = round(begin * RATE)
    fits = [
        np.corrcoef(samples[start + shift :][: len(part) - 1100], part[:-1100])[0, 1] for shift in range(0, 1100, 2)
    ]
    assert max(fits) > 0.95


@pytest.mark.parametrize(("container", "codec"), FILMS)
def test_sound_that_begins_late_in_a_film_comes_late(container: str, codec: str):
    samples, warning = read(film([[(5.0, FIRST)]], container, codec, 8.0))
    assert warning is None
    assert np.abs(samples[: round(4.9 * RATE)]).max() < 1e-3
    check_at(samples, 5.0, FIRST)


@pytest.mark.parametrize(
    ("container", "codec", "options"),
    [
        ("matroska", "pcm_s16le", {}),
        ("mp4", "aac", {}),
        ("mov", "pcm_s16le", {"movflags": "frag_keyframe+empty_moov"}),  # whole ones keep no stamps of PCM
    ],
)
def test_a_jump_of_time_stamps_is_silence(container: str, codec: str, options: dict[str, str]):
    samples, warning = read(film([[(0.0, FIRST), (22.048, SECOND)]], container, codec, 1.0, options))
    assert warning is None
    assert len(samples) / RATE == pytest.approx(24.1, abs=0.15)
    check_at(samples, 0.0, FIRST)
    check_at(samples, 22.048, SECOND)


@pytest.mark.parametrize(("container", "codec"), FILMS)
def test_a_film_may_go_on_without_sound(container: str, codec: str):
    assert read(film([[(0.0, FIRST)]], container, codec, 9.0))[1] is None


def test_time_stamps_that_go_back_or_far_ahead_are_another_clock():
    timeline = Timeline(10.0)
    assert timeline.silence_before(12.0) == 2.0
    timeline.advance(1.0)
    assert timeline.silence_before(13.05) == 0.0, "within what containers round"
    assert timeline.silence_before(0.0) == 0.0
    timeline.advance(1.0)
    assert timeline.silence_before(4.0) == 3.0
    assert timeline.silence_before(1e6) == 0.0
    assert timeline.seconds == 7.0


@pytest.mark.parametrize("bit_rate", [None, 24000])
def test_an_mp3_of_lame_that_is_cut_off_is_told(bit_rate):
    data = with_av(chirp(9.0), "mp3", "libmp3lame")
    assert read(data)[1] is None
    samples, warning = read(data[: len(data) // 2])
    assert "cut off" in warning
    assert 3.5 < len(samples) / RATE < 5.5


def opus(samples: np.ndarray, rate: int = RATE) -> bytes:
    return with_soundfile(samples, "OGG", "OPUS", rate)


@pytest.mark.parametrize("rate", [16000, 48000])
def test_all_links_of_chained_opus_are_read_the_same_from_a_file_and_a_pipe(rate: int):
    parts = [chirp(2.0, rate), chirp(3.0, rate, start=4.0), chirp(2.0, rate)]
    data = b"".join(opus(part, rate) for part in parts)
    seekable, warning = read(data)
    piped = read_audio(Pipe(data))
    assert warning is None
    assert len(seekable) / RATE == pytest.approx(7.0, abs=0.05)
    assert len(piped) / RATE == pytest.approx(7.0, abs=0.05)
    for samples in (seekable, piped):
        check_at(np.pad(samples, (0, 2000)), 2.0 - 0.02, chirp(3.0, RATE, start=4.0))


def test_the_default_track_is_read_and_the_others_are_named():
    commentary = {"title1": "Director's commentary", "title2": "Main"}
    data = film([[(0.0, FIRST)], [(0.0, SECOND)]], "matroska", "pcm_s16le", 2.0, t2="default", **commentary)
    samples, warning = read(data)
    check_at(samples, 0.0, SECOND)
    assert "2 sound tracks (1 Director's commentary, 2 Main); 2 is read, --track N takes another" in warning
    samples, warning = read(data, track=1)
    check_at(samples, 0.0, FIRST)
    assert warning is None
    with pytest.raises(AudioError, match="no sound track 3"):
        read(data, track=3)


def test_without_a_default_the_first_track_that_is_no_commentary_is_read():
    tracks = [[(0.0, FIRST)], [(0.0, SECOND)]]
    samples, _ = read(film(tracks, "mpegts", "aac", 2.0, t1="comment", t2="dub"))
    check_at(samples, 0.0, FIRST)  # MPEG-TS keeps neither flags nor titles
    samples, _ = read(film(tracks, "matroska", "pcm_s16le", 2.0, t1="comment", t2="dub"))
    check_at(samples, 0.0, SECOND)


@pytest.mark.parametrize("coding", CODINGS)
def test_raw_samples(coding: str):
    stereo = np.stack([FIRST, 0.5 * FIRST], 1)
    with av.open(buffer := io.BytesIO(), "w", format=coding) as file:
        stream = file.add_stream(f"pcm_{coding}", rate=22050, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(stereo).reshape(1, -1), "flt", "stereo")
        frame.sample_rate = 22050
        for part in av.AudioResampler(stream.format, "stereo", 22050).resample(frame):
            file.mux(stream.encode(part))
        file.mux(stream.encode(None))
    apart, warning = read(buffer.getvalue(), sample_rate=22050, separate=True, raw=RawFormat(coding, 22050, 2))
    assert warning is None
    np.testing.assert_allclose(apart, stereo, atol=0.03)
    piped = AudioFile(Pipe(buffer.getvalue()), 22050, raw=RawFormat(coding, 22050, 2))
    np.testing.assert_allclose(np.concatenate(list(piped.blocks())), 0.75 * FIRST, atol=0.03)


@pytest.mark.parametrize("wrong", [("pcm",), ("s16le", 0), ("s16le", 16000, 0), ("s16le", 16000, 1000)])
def test_impossible_raw_samples_are_refused(wrong: tuple):
    with pytest.raises(AudioError):
        RawFormat(*wrong)


def test_a_wav_file_is_not_taken_for_raw_samples():
    with pytest.raises(AudioError, match="leave --raw out"):
        AudioFile(io.BytesIO(with_soundfile(FIRST, "WAV")), raw=RawFormat("s16le"))


@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_channels_that_cancel_each_other_in_a_file(form: str):
    samples, warning = read(with_soundfile(np.stack([FIRST, -FIRST], 1), form, rate=RATE))
    np.testing.assert_allclose(np.abs(samples), np.abs(FIRST), atol=1e-4)
    assert "cancel" in warning


def test_wild_values_in_a_file_are_clipped_and_told():
    wild = 0.01 * FIRST
    wild[9000] = 1e5
    samples, warning = read(with_soundfile(wild, "WAV", "FLOAT", RATE))
    assert samples[9000] == 1
    np.testing.assert_array_equal(np.delete(samples, 9000), np.delete(0.01 * FIRST, 9000))
    assert "clipped" in warning


class OpenPipe:
    """A real pipe into which a test writes, and the file that reads it; it closes after a while, so that none hangs."""

    def __enter__(self):
        reading, writing = os.pipe()
        self.file, self._writing = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self._limit = threading.Timer(30.0, self._writing.close)
        self._limit.start()
        return self

    def write(self, data: bytes, wait: float = 0.0) -> None:
        threading.Thread(target=lambda: (time.sleep(wait), self._writing.write(data)), daemon=True).start()

    def __exit__(self, *exception):
        self._limit.cancel()
        self._writing.close()
        self.file.close()


def gather(blocks, seconds: float) -> np.ndarray:
    """Blocks up to so much sound."""
    samples = np.empty(0, np.float32)
    while len(samples) < seconds * RATE:
        samples = np.append(samples, next(blocks))
    return samples


@pytest.mark.parametrize("form", ["WAV", "MP3"])
def test_a_pipe_that_stays_open_gives_silence_within_a_second(form: str):
    with OpenPipe() as pipe:
        pipe.write(with_soundfile(FIRST, form, rate=RATE))
        with AudioFile(pipe.file) as file:
            begun = time.monotonic()
            samples = gather(file.blocks(0.1, live=True), 3.8)
        assert time.monotonic() - begun < 1.5
    assert not samples[round(2.2 * RATE) : round(3.5 * RATE)].any()
    check_at(samples, 0.0, FIRST[:20000])


def test_what_comes_after_a_wait_stands_at_the_time_of_the_clock():
    data = with_soundfile(np.append(FIRST[:8000], SECOND[:16000]), "WAV", rate=RATE)
    with OpenPipe() as pipe:
        pipe.write(data[: 44 + 16000])
        with AudioFile(pipe.file) as file:
            blocks = file.blocks(0.1, live=True)
            pipe.write(data[44 + 16000 :], wait=4.0)
            samples = gather(blocks, 5.2)
    start = np.flatnonzero(np.abs(samples[8000:]) > 0.05)[0] + 8000
    assert start / RATE == pytest.approx(4.0, abs=0.4)


def test_a_source_in_bursts_is_broken_up_once_at_most():
    part = FIRST[: 3 * RATE // 2]
    raw = [np.rint(32767 * p).astype("<i2").tobytes() for p in (part, SECOND[: len(part)], part)]
    with OpenPipe() as pipe:
        pipe.write(raw[0])
        with AudioFile(pipe.file, raw=RawFormat("s16le")) as file:
            blocks = file.blocks(0.1, live=True)
            pipe.write(raw[1], wait=1.0)
            gather(blocks, 1.5 + 2.5)
            pipe.write(raw[2], wait=1.0)
            samples = gather(blocks, 2.6)
    assert np.square(samples.reshape(-1, 1600)).mean(1).min() > 1e-3, "no silence between the second and third"

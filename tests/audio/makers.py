"""Sound files of many formats for the tests, made with soundfile and PyAV's encoders, and the check of what is read."""

import io
from fractions import Fraction

import av
import numpy as np
import pytest
import soundfile

RATE = 44100


def chirp(seconds: float, rate: int = RATE, start: float = 0.0) -> np.ndarray:
    """A tone between 200 and 2000 Hz that never repeats itself, float32, (samples,); at 0.5 of full scale."""
    time = start + np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * (200 * time + 1800 / 2 / 10 * np.minimum(time, 10) ** 2))).astype(np.float32)


def with_soundfile(samples: np.ndarray, form: str, subtype: str | None = None, rate: int = RATE) -> bytes:
    """Samples, (samples,) or (samples, channels), as a file of a format that libsndfile writes."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=form, subtype=subtype)
    return buffer.getvalue()


def with_av(samples: np.ndarray, container: str, codec: str, video: str | None = None, rate: int = RATE) -> bytes:
    """Mono samples, (samples,), as a file that PyAV writes, with a moving picture if `video` names its codec."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        sound = file.add_stream(codec, rate=rate)
        sound.codec_context.layout = "mono"
        picture = add_picture(file, video) if video else None
        resampler = av.AudioResampler(format=sound.codec_context.format, layout="mono", rate=rate, frame_size=1024)
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = rate
        frame.pts = 0
        frame.time_base = Fraction(1, rate)
        if picture is not None:
            write_pictures(file, picture, len(samples) / rate)
        for part in resampler.resample(frame) + resampler.resample(None):
            file.mux(sound.encode(part))
        file.mux(sound.encode(None))
    return buffer.getvalue()


def silent_video(seconds: float = 1.0) -> bytes:
    """A video without a sound track."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as file:
        write_pictures(file, add_picture(file, "mpeg4"), seconds)
    return buffer.getvalue()


def picture(form: str) -> bytes:
    """A still picture, form "mjpeg" (JPEG) or "png"."""
    codec = av.CodecContext.create(form, "w")
    codec.width, codec.height, codec.time_base = 64, 48, Fraction(1, 25)
    codec.pix_fmt = "yuvj420p" if form == "mjpeg" else "rgb24"
    frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
    frame.pts = 0
    return b"".join(bytes(packet) for packet in codec.encode(frame.reformat(format=codec.pix_fmt)) + codec.encode(None))


def add_picture(file: av.container.OutputContainer, codec: str) -> av.VideoStream:
    stream = file.add_stream(codec, rate=25)
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    return stream


def write_pictures(file: av.container.OutputContainer, stream: av.VideoStream, seconds: float) -> None:
    for number in range(round(25 * seconds)):
        image = np.full((48, 64, 3), number % 256, np.uint8)
        file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
    file.mux(stream.encode(None))


SECONDS = 3.0
SOUND = chirp(SECONDS)
EXPECTED = chirp(SECONDS, 16000)

FORMATS = {
    "wav u8": lambda s: with_soundfile(chirp(s), "WAV", "PCM_U8"),
    "wav s16": lambda s: with_soundfile(chirp(s), "WAV", "PCM_16"),
    "wav s24": lambda s: with_soundfile(chirp(s), "WAV", "PCM_24"),
    "wav s32": lambda s: with_soundfile(chirp(s), "WAV", "PCM_32"),
    "wav float": lambda s: with_soundfile(chirp(s), "WAV", "FLOAT"),
    "wav double": lambda s: with_soundfile(chirp(s), "WAV", "DOUBLE"),
    "wav ulaw": lambda s: with_soundfile(chirp(s), "WAV", "ULAW"),
    "wav adpcm": lambda s: with_soundfile(chirp(s), "WAV", "IMA_ADPCM"),
    "wav s64": lambda s: with_av(chirp(s), "wav", "pcm_s64le"),
    "wav stereo": lambda s: with_soundfile(np.stack([1.5 * chirp(s), 0.5 * chirp(s)], axis=1), "WAV", "PCM_16"),
    "wav 6 channels": lambda s: with_soundfile(np.stack([chirp(s)] * 6, axis=1), "WAVEX", "PCM_16"),
    "wav 24 channels": lambda s: with_soundfile(np.stack([chirp(s)] * 24, axis=1), "WAV", "PCM_16"),
    "w64": lambda s: with_soundfile(chirp(s), "W64"),
    "aiff": lambda s: with_soundfile(chirp(s), "AIFF"),
    "au": lambda s: with_soundfile(chirp(s), "AU"),
    "caf": lambda s: with_soundfile(chirp(s), "CAF"),
    "flac": lambda s: with_soundfile(chirp(s), "FLAC", "PCM_16"),
    "flac 24 bit stereo": lambda s: with_soundfile(np.stack([chirp(s), chirp(s)], axis=1), "FLAC", "PCM_24"),
    "ogg vorbis": lambda s: with_soundfile(chirp(s), "OGG", "VORBIS"),
    "ogg opus": lambda s: with_soundfile(chirp(s, 48000), "OGG", "OPUS", 48000),
    "ogg opus 8 kHz": lambda s: with_soundfile(chirp(s, 8000), "OGG", "OPUS", 8000),
    "mp3": lambda s: with_soundfile(chirp(s), "MP3"),
    "mp3 stereo 22 kHz": lambda s: with_soundfile(np.stack([chirp(s, 22050)] * 2, axis=1), "MP3", None, 22050),
    "m4a": lambda s: with_av(chirp(s), "ipod", "aac"),
    "aac": lambda s: with_av(chirp(s), "adts", "aac"),
    "webm": lambda s: with_av(chirp(s, 48000), "webm", "libopus", rate=48000),
    "mkv flac": lambda s: with_av(chirp(s), "matroska", "flac"),
    "mp4 video": lambda s: with_av(chirp(s), "mp4", "aac", video="mpeg4"),
    "avi video": lambda s: with_av(chirp(s), "avi", "mp2", video="mpeg4"),
    "mpeg-ts": lambda s: with_av(chirp(s), "mpegts", "aac", video="mpeg2video"),
}
# These containers do not say how many samples the encoder has added.
NOT_TRIMMED = {"aac", "avi video", "m4a", "mp4 video", "mpeg-ts", "wav adpcm"}


def check_sound(samples: np.ndarray, expected: np.ndarray = EXPECTED, slack: float = 0.003, lag: float = 0.0):
    """The samples are the expected ones: length within `slack` (s), same level, and no shift beyond `lag` (s)."""
    assert samples.dtype == np.float32
    assert abs(len(samples) - len(expected)) / 16000 <= slack + 2 * lag
    shifts = range(round(lag * 16000) + 1)
    common = min(len(samples), len(expected)) - len(shifts)
    fits = [np.corrcoef(samples[shift : shift + common], expected[:common])[0, 1] for shift in shifts]
    assert max(fits) > 0.99
    assert np.std(samples) == pytest.approx(np.std(expected), rel=0.05)


def film(
    tracks: list[list[tuple[float, np.ndarray]]],
    container: str,
    codec: str,
    seconds: float,
    options: dict[str, str] | None = None,
    **flags: str,
) -> bytes:
    """A moving picture of a length (seconds) with mono sound tracks at 16 kHz.

    Args:
        tracks: the parts of each, with the time stamps (seconds) at which they begin.
        container: ffmpeg's name.
        codec: of the sound.
        seconds: of the picture.
        options: of the container.
        flags: of a track, by its number (`t1="default"`), or its title (`title2="..."`).
    """
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container, options=options or {}) as file:
        picture = add_picture(file, "mpeg4")
        streams = []
        for number in range(1, len(tracks) + 1):
            stream = file.add_stream(codec, rate=16000, layout="mono")
            if (flag := flags.get(f"t{number}")) is not None:
                stream.disposition = getattr(type(stream.disposition), flag)
            stream.metadata["title"] = flags.get(f"title{number}", "")
            streams.append(stream)
        write_pictures(file, picture, seconds)
        for stream, parts in zip(streams, tracks, strict=True):
            for begin, samples in parts:
                for start in range(0, len(samples), 1024):
                    frame = av.AudioFrame.from_ndarray(samples[None, start : start + 1024], "fltp", "mono")
                    frame = frame if stream.format.name == "fltp" else to_format(frame, stream.format.name)
                    frame.sample_rate, frame.time_base = 16000, Fraction(1, 16000)
                    frame.pts = round(begin * 16000) + start
                    file.mux(stream.encode(frame))
            file.mux(stream.encode(None))
    return buffer.getvalue()


def to_format(frame: av.AudioFrame, form: str) -> av.AudioFrame:
    frame.sample_rate = 16000
    return av.AudioResampler(form, "mono", 16000).resample(frame)[0]


class Pipe:
    """A file object that cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._data.read(min(size, 1000))

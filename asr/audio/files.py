"""Sound from files, pipes and file objects: any format, rate and channel count, in memory that does not grow."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.bytestream import Source, open_bytes, source_name
from asr.audio.opus import decode_recorded, recorded_rate
from asr.audio.resample import StreamResampler
from asr.errors import AudioError

if TYPE_CHECKING:
    import av

# The demuxers that ffmpeg may choose by a file's content. Left out are those that open other files or addresses
# (playlists, concat, dash, sdp), still images, subtitles, and those that take any text or noise for their own.
_DEMUXERS = (
    "aa,aac,ac3,ac4,aiff,amr,ape,asf,ast,au,avi,avr,caf,dsf,dts,dtshd,dv,eac3,flac,flv,gxf,iff,ircam,live_flv,loas,"
    "matroska,mmf,mov,mp3,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nsv,nut,ogg,oma,paf,pvf,qcp,rm,shn,sox,spdif,swf,"
    "tak,truehd,tta,voc,w64,wav,webm,wsd,wtv,wv,xwma"
)
# These state their length, or when their last piece is heard; that of the others is guessed from the bit rate.
_EXACT_LENGTH = {"ape", "asf", "avi", "flac", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2", "ogg", "tak", "tta", "wv"}
_LOWEST_BIT_RATE = 200  # bit/s: a claim of so much length that the file would hold less than this is absurd
_PLAYLISTS = (b"#EXTM3U", b"ffconcat", b"[playlist]")
_TOO_LARGE = 2.0**31  # of a floating-point sample: no sound, even where integers were stored as floats
_SAMPLES = {  # type and full scale of ffmpeg's sample formats
    "u8": ("u1", 2.0**7),
    "s16": ("i2", 2.0**15),
    "s32": ("i4", 2.0**31),
    "s64": ("i8", 2.0**63),
    "flt": ("f4", 1.0),
    "dbl": ("f8", 1.0),
}


class AudioFile:
    """A source of sound, decoded piece by piece to one rate, and to mono unless its channels are kept apart.

    The format is told from the content, never from the name. A name is always that of a local file, also when it looks
    like an address. A file object is read from its start if it can seek, else from where it stands, and is left open.

    Args:
        source: a path; "-" for standard input; or a binary file object, which need not be able to seek.
        sample_rate: rate of the samples that come out (hertz).
        separate: keep the channels apart instead of mixing them.

    Attributes:
        name: what messages call the source.
        duration: length that the container claims (seconds); None when it claims none or an impossible one, and for
            a pipe, where the header is written before the length is known.
        warning: one line about damage that was met, None while there is none; complete once `blocks` has ended.

    Raises:
        AudioError: the source is missing, a folder, empty, not readable, no sound or video, or without a sound track.
    """

    def __init__(self, source: Source, sample_rate: int = 16000, *, separate: bool = False):
        self.sample_rate, self.separate = sample_rate, separate
        self.name = source_name(source)
        self.warning: str | None = None
        self._resources = ExitStack()
        try:
            self._bytes = open_bytes(source, self._resources)
            self._container = self._open_container()
            self._stream = self._sound_track()
        except BaseException:
            self.close()
            raise
        self._claimed = self._claimed_duration()
        self.duration = self._claimed if self._is_possible(self._claimed) else None
        self._end_missing = self._bytes.end_missing()
        self._damaged = 0

    def __enter__(self) -> "AudioFile":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Close the decoder and whatever was opened here."""
        self._resources.close()

    def blocks(self, seconds: float = 0.5) -> Iterator[np.ndarray]:
        """Decode the sound; a source can be gone through once.

        Damage does not end the reading: what can be decoded comes out, and `warning` tells of the rest.

        Args:
            seconds: length of a block (seconds).

        Yields:
            float32 mono samples at `sample_rate`, nominally in [-1, 1], (samples,), or (samples, channels) with
            `separate`; each of the length asked for but the last, which may be shorter. A valid file without samples
            yields nothing.

        Raises:
            AudioError: nothing at all could be decoded.
        """
        size = max(1, round(seconds * self.sample_rate))
        filled = 0
        for samples in self._resampled():
            if not filled:
                block = np.empty((size, *samples.shape[1:]), np.float32)
            while len(samples):
                part = samples[: size - filled]
                block[filled : filled + len(part)] = part
                filled += len(part)
                samples = samples[len(part) :]
                if filled == size:
                    yield block
                    block, filled = np.empty_like(block), 0
        if filled:
            yield block[:filled]

    def _resampled(self) -> Iterator[np.ndarray]:
        """Samples at `sample_rate`, (samples,) or (samples, channels); the source's rate may change on the way.

        Its number of channels may too: kept apart, what goes beyond those of the start is left out.
        """
        resampler = None
        seconds = 0.0
        for samples, rate in self._decoded():
            samples = samples if self.separate else samples.mean(1, dtype=samples.dtype)
            if resampler is None:
                nothing = samples[:0]
            if resampler is None or rate != resampler.source_rate:
                if resampler is not None:
                    yield resampler(nothing, last=True)
                resampler = StreamResampler(rate, self.sample_rate, nothing.shape[1] if self.separate else 1)
            seconds += len(samples) / rate
            yield resampler(_with_channels(samples, nothing.shape[1]) if self.separate else samples)
        self.warning = self._verdict(seconds)
        if resampler is not None:
            yield resampler(nothing, last=True)

    def _decoded(self) -> Iterator[tuple[np.ndarray, int]]:
        """Samples, (samples, channels), with the rate (hertz) that they have."""
        recorded = None
        if not self._end_missing and recorded_rate(self._bytes):
            recorded = decode_recorded(self._bytes)
        if recorded is not None:
            yield from recorded
        else:
            yield from ((_samples(frame), frame.sample_rate) for frame in self._frames())

    def _frames(self) -> Iterator["av.AudioFrame"]:
        """Decoded frames with samples in them; packets that cannot be decoded are counted and passed over."""
        from av.error import FFmpegError

        for packet in self._packets():
            try:
                frames = self._stream.codec_context.decode(packet)
            except FFmpegError:
                self._damaged += 1
                continue
            yield from (frame for frame in frames if frame.samples)

    def _packets(self) -> Iterator["av.Packet | None"]:
        """Packets of the sound track, then None, which empties the decoder."""
        from av.error import FFmpegError

        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    yield packet
        except (FFmpegError, OSError):
            self._end_missing = True
        self._bytes.raise_interrupt()
        yield None

    def _verdict(self, seconds: float) -> str | None:
        """The warning, if any, for a source that has given `seconds` of sound.

        Raises:
            AudioError: it gave none because of damage.
        """
        if self._damaged and not seconds:
            raise AudioError(f"{self.name}: no sound in it can be decoded: the file is damaged, or protected")
        # ffmpeg names an MP3's encoder on its stream only where the first frame also states the number of frames.
        form = self._container.format.name
        exact = form in _EXACT_LENGTH or (form == "mp3" and "encoder" in self._stream.metadata)
        if exact and self._claimed and seconds < self._claimed - max(0.25, 0.01 * self._claimed):
            return f"{self.name}: damaged or cut off: gave {seconds:.1f} s of the {self._claimed:.1f} s that it claims"
        if self._end_missing:
            return f"{self.name}: cut off, or damaged at its end: gave {seconds:.1f} s"
        if self._damaged:
            return f"{self.name}: damaged: gave {seconds:.1f} s, but not all of it could be decoded"
        return None

    def _open_container(self) -> "av.container.InputContainer":
        import av

        if self._bytes.head.startswith(_PLAYLISTS):
            raise AudioError(f"{self.name}: a playlist, not sound: give the sound files that it names")
        av.logging.set_level(None)
        options = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}
        if self._bytes.head[8:12] == b"WAVE" and not self._bytes.seekable():
            options["probesize"] = "4096"  # bytes; so that a recording in progress is heard early
        # PyAV 19 has given up the argument: it replaces what is no UTF-8 in tags by itself.
        lenient = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
        try:
            container = av.open(self._bytes, "r", options=options, **lenient)
        except av.error.FFmpegError as error:
            self._bytes.raise_interrupt()
            if self._bytes.head[4:8] == b"ftyp":
                reason = "an MP4 file without its index: its recording or download was not completed"
            else:
                reason = "not a sound or video file of a known format, or damaged at its start"
            raise AudioError(f"{self.name}: {reason}") from error
        except OSError as error:
            raise AudioError(f"{self.name}: cannot be read: {error.strerror or error}") from error
        return self._resources.enter_context(container)

    def _sound_track(self) -> "av.AudioStream":
        tracks = self._container.streams.audio
        if not tracks:
            raise AudioError(f"{self.name}: has no sound track")
        for track in tracks:
            if track.codec_context is not None:
                return track
        raise AudioError(f"{self.name}: its sound is in a coding that is not supported")

    def _claimed_duration(self) -> float | None:
        """Length that the container claims (seconds)."""
        if self._stream.duration is not None:
            return float(self._stream.duration * self._stream.time_base)
        if self._container.duration is not None:
            return self._container.duration / 1e6
        return None

    def _is_possible(self, seconds: float | None) -> bool:
        """Whether a source of this size can hold so much sound."""
        size = self._bytes.size
        if seconds is None or size is None:
            return False
        codec = self._stream.codec_context
        raw = codec.name.startswith("pcm_") and codec.bit_rate
        return 0 < seconds <= size * 8 / (raw or _LOWEST_BIT_RATE)


def read_audio(source: Source, sample_rate: int = 16000) -> np.ndarray:
    """The whole of a source as float32 mono samples at `sample_rate` (hertz), (samples,); see `AudioFile`.

    Raises:
        AudioError: the source cannot be opened or nothing in it can be decoded.
    """
    with AudioFile(source, sample_rate) as file:
        return np.concatenate([np.empty(0, np.float32), *file.blocks(seconds=10.0)])


def _samples(frame: "av.AudioFrame") -> np.ndarray:
    """The channels of a frame, float32 in [-1, 1], (samples, channels); what is no finite number becomes 0."""
    kind, full_scale = _SAMPLES[frame.format.name.removesuffix("p")]
    if frame.format.is_planar:
        values = np.stack([np.frombuffer(plane, kind, frame.samples) for plane in frame.planes], axis=1)
    else:
        channels = frame.layout.nb_channels
        values = np.frombuffer(frame.planes[0], kind, frame.samples * channels).reshape(-1, channels)
    if kind.startswith("f"):
        values = np.where(np.abs(values) < _TOO_LARGE, values, 0)
    samples = values.astype(np.float32 if values.itemsize < 4 else np.float64)
    if kind == "u1":
        samples -= full_scale
    return (samples / full_scale).astype(np.float32)


def _with_channels(samples: np.ndarray, count: int) -> np.ndarray:
    """Samples, (samples, channels), with so many channels: the first ones, missing ones silent."""
    missing = max(0, count - samples.shape[1])
    return np.pad(samples[:, :count], ((0, 0), (0, missing))) if missing else samples[:, :count]

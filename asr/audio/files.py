"""Sound from files, pipes and file objects: any format, rate and channel count, in memory that does not grow."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.bytestream import Source, open_bytes, source_name
from asr.audio.opus import decode_recorded, recorded_rate
from asr.audio.raw import RawFormat
from asr.audio.resample import StreamResampler
from asr.audio.samples import Intake
from asr.audio.timeline import Timeline
from asr.audio.tracks import choose_track
from asr.audio.waiting import Waiting
from asr.audio.wave import piped_wave
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
_EXACT_LENGTH = {
    "ape",
    "asf",
    "au",
    "avi",
    "flac",
    "matroska,webm",
    "mov,mp4,m4a,3gp,3g2,mj2",
    "ogg",
    "tak",
    "tta",
    "wv",
}
_LOSSLESS = {"ape", "flac", "tak", "tta", "wv"}  # to the sample, where encoders of others add some
_SLACK, _LOSSLESS_SLACK = 0.25, 0.02  # s that may be missing of an exact claim, or 1 % of it
# Where the sound of these has a gap, something is lost; others leave out what is silent.
_WITHOUT_GAPS = {"aac", "ac3", "aiff", "flac", "mp3", "ogg", "wav"}
_LOWEST_BIT_RATE = 200  # bit/s: a claim of so much length that the file would hold less than this is absurd
_PLAYLISTS = (b"#EXTM3U", b"ffconcat", b"[playlist]")
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
        track: which sound track of several is read, from 1; see `choose_track` for what is read if none is named.
        raw: the source has no header: samples of this kind from the first byte on.

    Attributes:
        name: what messages call the source.
        duration: length that the container claims (seconds); None when it claims none or an impossible one, and for
            a pipe, where the header is written before the length is known.

    Raises:
        AudioError: the source is missing, a folder, empty, not readable, no sound or video, or without such a track.
    """

    def __init__(
        self,
        source: Source,
        sample_rate: int = 16000,
        *,
        separate: bool = False,
        track: int | None = None,
        raw: RawFormat | None = None,
    ):
        self.sample_rate, self.separate = sample_rate, separate
        self.name = source_name(source)
        self._raw, self._notes, self._verdicts = raw, [], []
        self._resources = ExitStack()
        try:
            self._bytes = open_bytes(source, self._resources)
            self._container = self._open_container()
            self._stream = self._sound_track(track)
        except BaseException:
            self.close()
            raise
        self._zero = (self._container.start_time or 0) / 1e6
        self._timeline = Timeline(self._zero)
        self._claimed, self._of_all_tracks = self._claimed_duration()
        self.duration = self._claimed if self._is_possible(self._claimed) else None
        self._end_missing = raw is None and self._bytes.end_missing()
        self._damaged = 0
        self._others_end = 0.0  # up to where other tracks have been seen (seconds)

    def __enter__(self) -> "AudioFile":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    @property
    def warning(self) -> str | None:
        """One line about damage that was met, or what else was odd, None while nothing was; complete once `blocks` has
        ended."""
        notes = self._notes + self._verdicts
        return f"{self.name}: {'; '.join(notes)}" if notes else None

    @property
    def damage(self) -> str | None:
        """What `warning` says of sound that is missing or could not be decoded, without the name."""
        return "; ".join(self._verdicts) or None

    def close(self) -> None:
        """Close the decoder and whatever was opened here."""
        self._resources.close()

    def blocks(self, seconds: float = 0.5, *, live: bool = False) -> Iterator[np.ndarray]:
        """Decode the sound; a source can be gone through once.

        Damage does not end the reading: what can be decoded comes out, and `warning` tells of the rest. Times are those
        of the container's clock: where the sound begins later than the file, or has a gap, there is silence.

        Args:
            seconds: length of a block (seconds).
            live: a pipe that gives nothing more for a moment is not waited for: silence comes in its place, as
                `Waiting` says. Not so before its first sound is decoded: FLAC holds back ten frames (2.6 s at 16 kHz).

        Yields:
            float32 mono samples at `sample_rate`, nominally in [-1, 1], (samples,), or (samples, channels) with
            `separate`; each of the length asked for but the last, which may be shorter. A valid file without samples
            yields nothing.

        Raises:
            AudioError: nothing at all could be decoded.
        """
        size = max(1, round(seconds * self.sample_rate))
        filled = 0
        pieces = self._resampled()
        if live and self._bytes.can_be_waited_for():
            pieces = self._resources.enter_context(Waiting(pieces, self.sample_rate, self._bytes.end))
        for samples in pieces:
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
        resampler = intake = None
        for samples, rate in self._decoded():
            if intake is None:
                intake = Intake(rate, self._notes.append)
            samples = intake.clean(samples)
            samples = samples if self.separate else intake.mix(samples)
            if resampler is None:
                nothing = samples[:0]
            if resampler is None or rate != resampler.source_rate:
                if resampler is not None:
                    yield resampler(nothing, last=True)
                resampler = StreamResampler(rate, self.sample_rate, nothing.shape[1] if self.separate else 1)
            yield resampler(_with_channels(samples, nothing.shape[1]) if self.separate else samples)
        self._verdicts = self._verdict(self._timeline.seconds)
        if resampler is not None:
            yield resampler(nothing, last=True)

    def _decoded(self) -> Iterator[tuple[np.ndarray, int]]:
        """Samples, (samples, channels), with the rate (hertz) that they have."""
        recorded = None
        if not self._end_missing and recorded_rate(self._bytes):
            recorded = decode_recorded(self._bytes)
        if recorded is not None:
            for samples, rate in recorded:
                self._timeline.advance(len(samples) / rate)
                yield samples, rate
            return
        for frame in self._frames():
            samples, rate = _samples(frame), frame.sample_rate
            missing = round(self._timeline.silence_before(frame.time) * rate)
            for start in range(0, missing, rate):
                yield np.zeros((min(rate, missing - start), samples.shape[1]), np.float32), rate
            self._timeline.advance(frame.samples / rate)
            yield samples, rate

    def _frames(self) -> Iterator["av.AudioFrame"]:
        """Decoded frames with samples in them; packets that cannot be decoded are counted and passed over."""
        from av.error import FFmpegError

        decoder, begun = self._stream.codec_context, False
        for packet in self._packets():
            frames = []
            try:
                if begun and packet is not None and packet.has_sidedata("strings_metadata"):
                    # The next file of a chain: what the decoder remembers of the last one would distort it.
                    frames += decoder.decode(None)
                    decoder.flush_buffers()
                frames += decoder.decode(packet)
            except FFmpegError:
                self._damaged += 1
            begun = True
            yield from (frame for frame in frames if frame.samples)

    def _packets(self) -> Iterator["av.Packet | None"]:
        """Packets of the sound track, then None, which empties the decoder.

        Where the claimed length is that of all tracks, the others are followed too: a film may go on without sound.
        """
        from av.error import FFmpegError

        try:
            demuxer = self._container.demux() if self._of_all_tracks else self._container.demux(self._stream)
            while True:
                with self._bytes.keeping_interrupts():
                    packet = next(demuxer, None)
                if packet is None:
                    break
                if packet.size and packet.stream is self._stream:
                    yield packet
                elif packet.size and packet.pts is not None:
                    end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
                    self._others_end = max(self._others_end, end - self._zero)
        except (FFmpegError, OSError):
            self._end_missing = True
        self._bytes.raise_interrupt()
        yield None

    def _verdict(self, seconds: float) -> list[str]:
        """The notes, if any, on a source that has given `seconds` of sound, with the silence in it.

        Raises:
            AudioError: it gave none because of damage.
        """
        line = self._loss(seconds)
        if line is not None and not seconds:
            raise AudioError(f"{self.name}: {line}")
        return [] if line is None else [line]

    def _loss(self, seconds: float) -> str | None:
        """What has been lost of the sound, by what the container says of it."""
        if self._damaged and not seconds:
            return "no sound in it can be decoded: the file is damaged, or protected"
        form = self._container.format.name
        exact = form in _EXACT_LENGTH or (form == "mp3" and self._bytes.states_length())
        claimed, reached = self._claimed or 0.0, max(seconds, self._others_end)
        slack = max(_LOSSLESS_SLACK if form in _LOSSLESS else _SLACK, 0.01 * claimed)
        if (exact and reached < claimed - slack) or (not reached and claimed > _LOSSLESS_SLACK):
            return f"damaged or cut off: gave {seconds:.1f} s of the {claimed:.1f} s that it claims"
        if self._end_missing:
            return f"cut off, or damaged at its end: gave {seconds:.1f} s"
        if self._damaged or (self._timeline.filled and form in _WITHOUT_GAPS):
            return f"damaged: gave {seconds:.1f} s, but not all of it could be decoded"
        return None

    def _open_container(self) -> "av.container.InputContainer":
        import av

        if self._bytes.head.startswith(_PLAYLISTS):
            raise AudioError(f"{self.name}: a playlist, not sound: give the sound files that it names")
        av.logging.set_level(None)
        options, form, raw = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}, None, self._raw
        if raw is not None and self._bytes.head[8:12] == b"WAVE":
            raise AudioError(f"{self.name}: a WAV file, whose header tells its coding: leave --raw out")
        if not self._bytes.seekable():  # so that a recording in progress is heard early
            raw = raw or piped_wave(self._bytes)
            options |= {"analyzeduration": "200000"} | ({"probesize": "4096"} if raw else {})  # microseconds; bytes
        if raw is not None:
            form = raw.coding
            options["format_whitelist"] = form
            options |= {"sample_rate": str(raw.rate), "ch_layout": f"{raw.channels}C"}
        # PyAV 19 has given up the argument: it replaces what is no UTF-8 in tags by itself.
        lenient = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
        try:
            with self._bytes.keeping_interrupts():
                container = av.open(self._bytes, "r", format=form, options=options, **lenient)
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

    def _sound_track(self, number: int | None) -> "av.AudioStream":
        try:
            track, note = choose_track(self._container.streams.audio, number)
        except AudioError as error:
            raise AudioError(f"{self.name}: {error}") from error
        self._notes += [] if note is None else [note]
        return track

    def _claimed_duration(self) -> tuple[float | None, bool]:
        """Time (seconds from the start of the file) at which the sound claims to end; whether that is only the length
        of the whole file, which may hold tracks that are longer."""
        stream, container = self._stream, self._container
        hours, _, rest = stream.metadata.get("DURATION", "").partition(":")  # Matroska: 00:00:05.123456789
        minutes, _, seconds = rest.partition(":")
        with suppress(ValueError):
            return 3600 * int(hours) + 60 * int(minutes) + float(seconds) - max(0.0, self._zero), False
        several = len(container.streams) > 1
        of_file = None if container.duration is None else container.duration / 1e6
        if stream.duration is None:
            return of_file, several and of_file is not None
        length = float(stream.duration * stream.time_base)
        if several and of_file is not None and abs(length - of_file) <= float(stream.time_base):
            return of_file, True  # ffmpeg gives it to a track whose first sound is late
        return max(0.0, float((stream.start_time or 0) * stream.time_base) - self._zero) + length, False

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
    """The channels of a frame as floats, (samples, channels), where 1 is full scale."""
    kind, full_scale = _SAMPLES[frame.format.name.removesuffix("p")]
    if frame.format.is_planar:
        values = np.stack([np.frombuffer(plane, kind, frame.samples) for plane in frame.planes], axis=1)
    else:
        channels = frame.layout.nb_channels
        values = np.frombuffer(frame.planes[0], kind, frame.samples * channels).reshape(-1, channels)
    if kind.startswith("f"):
        return values
    samples = values.astype(np.float32 if values.itemsize < 4 else np.float64)
    if kind == "u1":
        samples -= full_scale
    return (samples / full_scale).astype(np.float32)


def _with_channels(samples: np.ndarray, count: int) -> np.ndarray:
    """Samples, (samples, channels), with so many channels: the first ones, missing ones silent."""
    missing = max(0, count - samples.shape[1])
    return np.pad(samples[:, :count], ((0, 0), (0, missing))) if missing else samples[:, :count]

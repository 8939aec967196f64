"""What `Recognizer.transcribe` gives: the text of one recording, its utterances and words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from asr.audio.files import AudioFile
from asr.audio.samples import Intake, Samples, check_rate
from asr.errors import AudioError
from asr.events import Final, Word
from asr.jobs.sound import LONG_SECONDS

if TYPE_CHECKING:
    from asr.recognition.recognizer import Recognizer, StreamOptions

TOGETHER = 16  # recordings in a batch

Recording = str | PathLike[str] | BinaryIO | Samples | Iterable[Samples]


@dataclass(frozen=True)
class Transcript:
    """A recording in words. Iterating over it gives its utterances.

    Attributes:
        utterances: finals in order; times are seconds from the start of the recording.
        seconds: length of the recording.
        warning: damage that was met while reading, or what else was odd about the sound; None if there was nothing.
    """

    utterances: tuple[Final, ...] = field(default=())
    seconds: float = 0.0
    warning: str | None = None

    def __iter__(self) -> Iterator[Final]:
        return iter(self.utterances)

    def __len__(self) -> int:
        return len(self.utterances)

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """All words."""
        return " ".join(utterance.text for utterance in self.utterances)

    @property
    def words(self) -> tuple[Word, ...]:
        """All words with their times and confidences."""
        return tuple(word for utterance in self.utterances for word in utterance.words)

    @property
    def confidence(self) -> float:
        """Mean confidence of the words, 0 to 1; 0 where there are none."""
        return sum(word.confidence for word in self.words) / max(1, len(self.words))


class Reader:
    """The sound of anything that can be transcribed, in blocks.

    Attributes:
        seconds: read so far.
        warning: as of `Transcript`, complete when all finals have been given.
    """

    def __init__(self, recognizer: Recognizer, recording: Recording, rate: float | None) -> None:
        self._recognizer, self._recording, self._rate = recognizer, recording, rate
        self.seconds = 0.0
        self._notes: list[str] = []

    @property
    def warning(self) -> str | None:
        return "; ".join(self._notes) or None

    def finals(self, options: StreamOptions) -> Iterator[Final]:
        """Finals as they are decoded.

        Raises:
            AudioError: the recording cannot be opened or read, or `rate` is none that sound has.
            ValueError: `rate` was given for a file, which knows its own.
        """
        rate = self._recognizer.sample_rate if self._rate is None else self._rate
        check_rate(rate)
        stream = self._recognizer.stream(options, self._notes.append)
        for block in self._blocks(rate):
            for event in stream.accept(block, rate):
                if isinstance(event, Final):
                    yield event
            self.seconds = stream.seconds
        for event in stream.finish():
            if isinstance(event, Final):
                yield event
        self.seconds = stream.seconds

    def _blocks(self, rate: float) -> Iterator[Samples]:
        recording = self._recording
        if _is_samples(recording):
            samples, size = Intake(rate, self._notes.append)(recording), round(rate)
            for start in range(0, len(samples), size):
                yield samples[start : start + size]
        elif isinstance(recording, str | PathLike) or hasattr(recording, "read"):
            if self._rate is not None:
                raise ValueError("rate is for samples: a file knows its own")
            with AudioFile(recording, self._recognizer.sample_rate) as audio:
                yield from audio.blocks()
            self._notes += [] if audio.warning is None else [audio.warning]
        elif isinstance(recording, Iterable):
            yield from recording
        else:
            raise AudioError(f"{type(recording).__name__} is neither a file nor samples, nor blocks of samples")


def _is_samples(recording: Recording) -> bool:
    """Whether that is all samples of a recording, or wants to be: bytes, whose error `Intake` words."""
    return hasattr(recording, "__array__") or isinstance(recording, bytes | bytearray | memoryview)


def transcribe_recording(
    recognizer: Recognizer, recording: Recording, options: StreamOptions, rate: float | None
) -> Transcript:
    """The whole of a recording; see `Recognizer.transcribe`."""
    reader = Reader(recognizer, recording, rate)
    return Transcript(tuple(reader.finals(options)), reader.seconds, reader.warning)


def transcribe_recordings(
    recognizer: Recognizer, recordings: Iterable[Samples | str | PathLike[str] | BinaryIO], options: StreamOptions
) -> list[Transcript]:
    """Several recordings together, long ones alone; see `Recognizer.transcribe_batch`."""
    from asr.recognition.together import decode_together

    rate = recognizer.sample_rate
    found: list[Transcript | None] = []
    short: list[tuple[int, np.ndarray, str | None]] = []
    for index, recording in enumerate(recordings):
        samples, warning = _read(recording, rate, index)
        if len(samples) <= LONG_SECONDS * rate:
            short.append((index, samples, warning))
            found.append(None)
        else:
            found.append(replace(transcribe_recording(recognizer, samples, options, None), warning=warning))
    short.sort(key=lambda one: -len(one[1]))
    for start in range(0, len(short), TOGETHER):
        batch = short[start : start + TOGETHER]
        decoded = decode_together(recognizer, [samples for _, samples, _ in batch], options)
        for (index, samples, warning), events in zip(batch, decoded, strict=True):
            finals = tuple(event for event in events if isinstance(event, Final))
            found[index] = Transcript(finals, len(samples) / rate, warning)
    return found


def _read(recording: Samples | str | PathLike[str] | BinaryIO, rate: int, index: int) -> tuple[np.ndarray, str | None]:
    """All samples `(time,)` of one of several recordings, and what was odd about them."""
    if isinstance(recording, str | PathLike) or hasattr(recording, "read"):
        with AudioFile(recording, rate) as audio:
            samples = np.concatenate([np.empty(0, np.float32), *audio.blocks()])
        return samples, audio.warning
    notes: list[str] = []
    try:
        return Intake(rate, notes.append)(recording), "; ".join(notes) or None
    except AudioError as error:
        raise AudioError(f"recording {index + 1} of the batch: {error}") from error

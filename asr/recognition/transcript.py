"""What `Recognizer.transcribe` gives: the text of one recording, its utterances and words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import BinaryIO

import numpy as np

from asr.audio.files import AudioFile
from asr.audio.samples import Intake, Samples, check_rate, is_number
from asr.errors import AudioError
from asr.events import Event, Final, Word
from asr.recognition.stream import Stream
from asr.writing.tokens import join

LONG_SECONDS = 60.0  # a recording beyond this is decoded alone, as a stream
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
        return join(utterance.text for utterance in self.utterances)

    @property
    def words(self) -> tuple[Word, ...]:
        """All words with their times and confidences."""
        return tuple(word for utterance in self.utterances for word in utterance.words)

    @property
    def confidence(self) -> float:
        """Mean confidence of the words, 0 to 1; 0 where there are none."""
        return sum(word.confidence for word in self.words) / max(1, len(self.words))


class Reader:
    """The sound of anything that can be transcribed.

    Args:
        recording: a file, samples, or blocks of samples.
        rate: of samples (hertz); None: the stream's own.

    Attributes:
        notes: what is odd about the sound, complete when all finals have been given.
        seconds: read so far.
    """

    def __init__(self, recording: Recording, rate: float | None) -> None:
        self._recording, self._rate = recording, rate
        self.seconds = 0.0
        self.notes: list[str] = []

    def finals(self, stream: Stream) -> Iterator[Final]:
        """Finals as a fresh stream decodes them.

        Raises:
            AudioError: the recording cannot be opened or read, or `rate` is none that sound has.
            ValueError: `rate` was given for a file, which knows its own.
        """
        rate = stream.sample_rate if self._rate is None else self._rate
        check_rate(rate)
        for block in self._blocks(rate, stream.sample_rate):
            for event in stream.accept(block, rate):
                if isinstance(event, Final):
                    yield event
            self.seconds = stream.seconds
        for event in stream.finish():
            if isinstance(event, Final):
                yield event
        self.seconds = stream.seconds

    def transcript(self, stream: Stream) -> Transcript:
        """All of them."""
        return Transcript(tuple(self.finals(stream)), self.seconds, "; ".join(self.notes) or None)

    def _blocks(self, rate: float, model_rate: int) -> Iterator[Samples]:
        recording = self._recording
        if _is_file(recording):
            if self._rate is not None:
                raise ValueError("rate is for samples: a file knows its own")
            with AudioFile(recording, model_rate) as audio:
                yield from audio.blocks()
            self.notes += [] if audio.warning is None else [audio.warning]
        elif _is_blocks(recording):
            yield from recording
        else:
            samples, size = Intake(rate, self.notes.append)(recording), round(rate)
            for start in range(0, len(samples), size):
                yield samples[start : start + size]


def _is_file(recording: Recording) -> bool:
    return isinstance(recording, str | PathLike) or hasattr(recording, "read")


def _is_blocks(recording: Recording) -> bool:
    """Whether that is blocks of samples, rather than all samples or what is no sound, whose error `Intake` words."""
    if isinstance(recording, list | tuple):
        return not any(map(is_number, recording[:2]))
    no_sound = bytes | bytearray | memoryview | Mapping | Set
    return isinstance(recording, Iterable) and not (hasattr(recording, "__array__") or isinstance(recording, no_sound))


def transcribe_recordings(
    recordings: Iterable[Samples | str | PathLike[str] | BinaryIO],
    rate: int,
    together: Callable[[list[np.ndarray]], list[list[Event]]],
    alone: Callable[[np.ndarray], Transcript],
) -> list[Transcript]:
    """Several recordings, short ones `together`, long ones `alone`, at the rate of the model (hertz)."""
    if not isinstance(recordings, Iterable) or isinstance(recordings, bytes | Mapping) or _is_file(recordings):
        raise AudioError(f"a batch is a list of recordings, not {type(recordings).__name__}: put one in a list")
    found: list[Transcript | None] = []
    short: list[tuple[int, np.ndarray, str | None]] = []
    for index, recording in enumerate(recordings):
        samples, warning = _read(recording, rate, index)
        if len(samples) <= LONG_SECONDS * rate:
            short.append((index, samples, warning))
            found.append(None)
        else:
            found.append(replace(alone(samples), warning=warning))
    short.sort(key=lambda one: -len(one[1]))
    for start in range(0, len(short), TOGETHER):
        batch = short[start : start + TOGETHER]
        decoded = together([samples for _, samples, _ in batch])
        for (index, samples, warning), events in zip(batch, decoded, strict=True):
            finals = tuple(event for event in events if isinstance(event, Final))
            found[index] = Transcript(finals, len(samples) / rate, warning)
    return found


def _read(recording: Samples | str | PathLike[str] | BinaryIO, rate: int, index: int) -> tuple[np.ndarray, str | None]:
    """All samples `(time,)` of one of several recordings, and what was odd about them."""
    if _is_file(recording):
        with AudioFile(recording, rate) as audio:
            samples = np.concatenate([np.empty(0, np.float32), *audio.blocks()])
        return samples, audio.warning
    notes: list[str] = []
    try:
        return Intake(rate, notes.append)(recording), "; ".join(notes) or None
    except AudioError as error:
        raise AudioError(f"recording {index + 1} of the batch: {error}") from error

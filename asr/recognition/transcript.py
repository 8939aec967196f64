"""What `Recognizer.transcribe` gives: the text of one recording, its utterances and words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from asr.audio.files import AudioFile
from asr.events import Final, Word
from asr.jobs.sound import LONG_SECONDS

if TYPE_CHECKING:
    from asr.recognition.recognizer import Recognizer, StreamOptions

TOGETHER = 16  # recordings in a batch

Recording = str | PathLike[str] | BinaryIO | np.ndarray | Iterable[np.ndarray]


@dataclass(frozen=True)
class Transcript:
    """A recording in words. Iterating over it gives its utterances.

    Attributes:
        utterances: finals in order; times are seconds from the start of the recording.
        seconds: length of the recording.
        warning: damage that was met while reading, None if there was none.
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
        warning: as of `AudioFile`.
    """

    def __init__(self, recognizer: Recognizer, recording: Recording, rate: int | None) -> None:
        self._recognizer, self._recording, self._rate = recognizer, recording, rate
        self.seconds, self.warning = 0.0, None

    def finals(self, options: StreamOptions) -> Iterator[Final]:
        """Finals as they are decoded.

        Raises:
            AudioError: the recording cannot be opened or read.
            ValueError: `rate` was given for a file, which knows its own.
        """
        stream, rate = self._recognizer.stream(options), self._rate or self._recognizer.sample_rate
        for block in self._blocks():
            for event in stream.accept(block, rate):
                if isinstance(event, Final):
                    yield event
            self.seconds = stream.seconds
        for event in stream.finish():
            if isinstance(event, Final):
                yield event
        self.seconds = stream.seconds

    def _blocks(self) -> Iterator[np.ndarray]:
        recording = self._recording
        if isinstance(recording, np.ndarray):
            size = self._rate or self._recognizer.sample_rate
            for start in range(0, len(recording), size):
                yield recording[start : start + size]
        elif isinstance(recording, str | PathLike) or hasattr(recording, "read"):
            if self._rate is not None:
                raise ValueError("rate is for samples: a file knows its own")
            with AudioFile(recording, self._recognizer.sample_rate) as audio:
                yield from audio.blocks()
            self.warning = audio.warning
        else:
            yield from recording


def transcribe_recording(
    recognizer: Recognizer, recording: Recording, options: StreamOptions, rate: int | None
) -> Transcript:
    """The whole of a recording; see `Recognizer.transcribe`."""
    reader = Reader(recognizer, recording, rate)
    return Transcript(tuple(reader.finals(options)), reader.seconds, reader.warning)


def transcribe_recordings(
    recognizer: Recognizer, recordings: Iterable[np.ndarray | str | PathLike[str] | BinaryIO], options: StreamOptions
) -> list[Transcript]:
    """Several recordings together, long ones alone; see `Recognizer.transcribe_batch`."""
    from asr.recognition.together import decode_together

    rate = recognizer.sample_rate
    found: list[Transcript | None] = []
    short: list[tuple[int, np.ndarray, str | None]] = []
    for index, recording in enumerate(recordings):
        warning = None
        if not isinstance(recording, np.ndarray):
            with AudioFile(recording, rate) as audio:
                recording = np.concatenate([np.empty(0, np.float32), *audio.blocks()])
            warning = audio.warning
        samples = np.asarray(recording, np.float32)
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

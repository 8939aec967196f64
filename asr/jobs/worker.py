"""What one process does with its share of a job: read the sound, decode it, write the outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from asr.audio.files import AudioFile
from asr.audio.raw import RawFormat
from asr.errors import AsrError
from asr.events import Event, Final
from asr.files import NO_ROOM, write_whole
from asr.formats import render
from asr.jobs.plan import Task
from asr.jobs.sound import Sound
from asr.recognition.recognizer import RECORDED, Recognizer, StreamOptions
from asr.recognition.together import decode_long, decode_together

READERS, READ_AHEAD = 2, 6  # threads that decode sound, and recordings that wait for the model
TOGETHER, TOGETHER_SECONDS = 16, 60  # recordings in a batch, and how much sound: their results come at once
GATHERED = 32  # recordings from which batches of similar length are made

Heard = Callable[[int, float, float], None]
"""Is told on the way which task is worked on, by its number, and how much is done with: a share of its sound, which is
so many seconds."""


def unheard(number: int, share: float, seconds: float) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Settings:
    """How a job is decoded; the same in every process and on every machine.

    Attributes:
        model: name or folder.
        device: where to compute.
        threads: processor threads of a process; None: as many as there are cores.
        options: of the streams.
        separate: channels are decoded apart.
        together: recordings that are decoded at once.
        precision: of the encoder's products, as in `Recognizer.load`.
        track: which sound track of films is read, None: the default one.
        raw: what recordings without a header are, None: all have one.
    """

    model: str = "en"
    device: str = "cpu"
    threads: int | None = None
    options: StreamOptions = RECORDED
    separate: bool = False
    together: int = TOGETHER
    precision: str = "auto"
    track: int | None = None
    raw: RawFormat | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes:
        number: of the task.
        name: of its input.
        seconds: sound decoded.
        words: words found.
        error: why there is no result, None where there is one.
        warning: damage that was met on the way.
        events: with their channels, where the task asks for no files.
        no_room: there is no result because the disk is full: nor will there be one of what follows.
        known: how long it is and what was heard is known; not where another process wrote the outputs and was lost.
    """

    number: int
    name: str
    seconds: float = 0.0
    words: int = 0
    error: str | None = None
    warning: str | None = None
    events: tuple[tuple[Event, int | None], ...] = ()
    no_room: bool = False
    known: bool = True


class Worker:
    """A recogniser that works tasks off.

    Raises:
        AsrError: there is no such model or device.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.recognizer = Recognizer.load(
            settings.model, device=settings.device, threads=settings.threads, precision=settings.precision
        )
        self._models = self.recognizer.model, self.recognizer.gate_of(settings.options)

    def run(self, tasks: Sequence[Task], heard: Heard = unheard) -> Iterator[Outcome]:
        """An outcome for each task, in the order in which they are done. Nothing that is wrong with an input raises."""
        gathered: list[tuple[Task, Sound]] = []
        for task, sound in self._read(tasks):
            if isinstance(sound, Outcome):
                yield sound
            elif sound.long:
                yield self._guarded(task, lambda task=task, sound=sound: self._decode_long(task, sound, heard))
            else:
                gathered.append((task, sound))
                if len(gathered) == GATHERED:
                    yield from self._decode_gathered(gathered, heard)
                    gathered = []
        yield from self._decode_gathered(gathered, heard)

    def _read(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Sound | Outcome]]:
        """The sound of each task, read ahead in other threads."""
        readers = ThreadPoolExecutor(READERS)
        waiting: deque[tuple[Task, Future]] = deque()
        try:
            for task in tasks:
                waiting.append((task, readers.submit(self._open, task)))
                if len(waiting) > READ_AHEAD:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for first, future in waiting:
                yield first, future.result()
        finally:  # at once, where a signal ends it
            readers.shutdown(wait=False, cancel_futures=True)

    def _open(self, task: Task) -> Sound | Outcome:
        try:
            if task.input.error is not None:
                raise AsrError(f"{task.input.name}: {task.input.error}")
            settings = self.settings
            kind = {"separate": settings.separate, "track": settings.track, "raw": settings.raw}
            return Sound(AudioFile(task.input.open(), self.recognizer.sample_rate, **kind))
        except Exception as error:
            return _failure(task, error)

    def _guarded(self, task: Task, decode: Callable[[], Outcome]) -> Outcome:
        """An outcome also where decoding or writing fails in a way that nobody thought of."""
        try:
            return decode()
        except Exception as error:
            return _failure(task, error)

    def _decode_long(self, task: Task, sound: Sound, heard: Heard) -> Outcome:
        def blocks() -> Iterator[np.ndarray]:
            for samples in sound.blocks():
                yield samples
                seconds = len(samples) / self.recognizer.sample_rate
                heard(task.number, seconds / sound.duration if sound.duration else 0.0, seconds)

        with sound:
            events = list(decode_long(*self._models, blocks(), self.settings.options, sound.separate))
        return self._finished(task, sound, events)

    def _decode_gathered(self, gathered: Sequence[tuple[Task, Sound]], heard: Heard) -> Iterator[Outcome]:
        """Batches of similar length; where one fails, its recordings are decoded one by one."""
        for batch in _batches(gathered, self.settings.together):
            try:
                decoded = self._decode_batch(batch, heard)
            except Exception:
                for task, sound in batch:
                    yield self._guarded(task, lambda t=task, s=sound: self._decode_alone(t, s, heard))
                continue
            for (task, sound), events in zip(batch, decoded, strict=True):
                yield self._guarded(task, lambda t=task, s=sound, e=events: self._finished(t, s, e))

    def _decode_alone(self, task: Task, sound: Sound, heard: Heard) -> Outcome:
        (events,) = self._decode_batch([(task, sound)], heard)
        return self._finished(task, sound, events)

    def _decode_batch(self, batch: Sequence[tuple[Task, Sound]], heard: Heard) -> list[list[tuple[Event, int | None]]]:
        """The events of each recording, with their channels."""
        tracks = [track for _, sound in batch for track in sound.tracks]
        owners = [(task.number, sound) for task, sound in batch for _ in sound.tracks]

        def worked(track: int, seconds: float) -> None:
            number, sound = owners[track]
            seconds /= len(sound.tracks)
            heard(number, seconds / sound.seconds, seconds)

        decoded = iter(decode_together(*self._models, tracks, self.settings.options, worked))
        return [
            [
                (event, number if sound.separate else None)
                for number in range(1, len(sound.tracks) + 1)
                for event in next(decoded)
            ]
            for _, sound in batch
        ]

    def _finished(self, task: Task, sound: Sound, events: list[tuple[Event, int | None]]) -> Outcome:
        """Writes the outputs."""
        if sound.separate:
            events = sorted(events, key=lambda pair: pair[0].end if isinstance(pair[0], Final) else pair[0].time)
        for form, path in task.outputs.items():
            try:
                write_whole(path, render(form, task.input.name, events, sound.seconds))
            except OSError as error:
                failure = AsrError(f"{task.input.name}: cannot write {path}: {error.strerror or error}")
                return replace(_failure(task, failure), no_room=error.errno in NO_ROOM)
        words = sum(len(event.words) for event, _ in events if isinstance(event, Final))
        kept = () if task.outputs else tuple(events)
        return Outcome(task.number, task.input.name, sound.seconds, words, warning=sound.warning, events=kept)


def _batches(gathered: Sequence[tuple[Task, Sound]], together: int) -> Iterator[list[tuple[Task, Sound]]]:
    batch: list[tuple[Task, Sound]] = []
    rows = seconds = 0
    for task, sound in sorted(gathered, key=lambda pair: -pair[1].seconds):
        if batch and (rows + len(sound.tracks) > together or seconds + sound.seconds > TOGETHER_SECONDS):
            yield batch
            batch, rows, seconds = [], 0, 0
        batch.append((task, sound))
        rows, seconds = rows + len(sound.tracks), seconds + sound.seconds * len(sound.tracks)
    if batch:
        yield batch


def _failure(task: Task, error: Exception) -> Outcome:
    name = task.input.name
    line = str(error) if isinstance(error, AsrError) else f"{name}: {type(error).__name__}: {error}"
    return Outcome(task.number, name, error=" ".join(line.split()))

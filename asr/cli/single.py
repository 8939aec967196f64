"""One recording to a writer, events as they come: a pipe is transcribed while the sound arrives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.files import AudioFile
from asr.cli.tell import tell
from asr.events import Event, Final
from asr.text import printable

if TYPE_CHECKING:
    from asr.formats import Writer
    from asr.jobs.inputs import Input
    from asr.jobs.worker import Settings
    from asr.recognition.recognizer import Recognizer
    from asr.recognition.stream import Stream

PROGRESS_AFTER = 2.0  # s of work before a progress bar appears


def transcribe_one(recognizer: Recognizer, item: Input, settings: Settings, writer: Writer) -> bool:
    """Decodes one input; whether there are words in it.

    Raises:
        AudioError: it cannot be opened or read.
    """
    kind = {"separate": settings.separate, "track": settings.track, "raw": settings.raw}
    with AudioFile(item.open(), recognizer.sample_rate, **kind) as audio:
        streams, words = [recognizer.stream(settings.options)], False
        writer.begin(item.name)
        try:
            with _progress(item.name, audio) as advance:
                for samples in audio.blocks(live=True):
                    channels = samples.T if settings.separate else samples[None]
                    streams += [recognizer.stream(settings.options) for _ in channels[len(streams) :]]
                    for number, (stream, channel) in enumerate(zip(streams, channels, strict=True), start=1):
                        events = stream.accept(np.ascontiguousarray(channel), recognizer.sample_rate)
                        words |= _write(writer, events, number if settings.separate else None)
                    advance(streams[0].seconds)
        finally:
            for number, stream in enumerate(streams, start=1):
                words |= _write(writer, stream.finish(), number if settings.separate else None)
            writer.end(streams[0].seconds)
        _tell_what_is_odd(item.name, audio, streams[0], words)
    return words


def _write(writer: Writer, events: list[Event], channel: int | None) -> bool:
    """Hands events on; whether there are words among them."""
    for event in events:
        writer.event(event, channel)
    return any(isinstance(event, Final) for event in events)


def _tell_what_is_odd(name: str, audio: AudioFile, stream: Stream, words: bool) -> None:
    if audio.warning:
        tell(audio.warning)
    if not stream.seconds:
        tell(f"{name}: holds no sound (0 s long)")
    elif not words:
        tell(f"{name}: no words heard in {stream.seconds:.1f} s")


@contextmanager
def _progress(file: str, audio: AudioFile) -> Iterator:
    """A bar on standard error when it is a terminal and the work takes longer than a moment."""
    if not sys.stderr.isatty():
        yield lambda seconds: None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[position]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    begun, started = time.monotonic(), False
    task = bar.add_task(printable(Path(file).name), total=audio.duration, position="")

    def advance(seconds: float) -> None:
        nonlocal started
        if not started and time.monotonic() - begun > PROGRESS_AFTER:
            bar.start()
            started = True
        total = "" if audio.duration is None else f" of {audio.duration:.0f}"
        bar.update(task, completed=seconds, position=f"{seconds:.0f}{total} s")

    try:
        yield advance
    finally:
        if started:
            bar.stop()

"""`asr transcribe`: files to text, through the same stream as live audio."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from asr.cli.options import (
    ChunkMs,
    Device,
    Format,
    LookAheadMs,
    Model,
    SecondPass,
    Switch,
    Threads,
    load_recognizer,
    refuse_overwriting,
)
from asr.errors import AsrError, AudioError

if TYPE_CHECKING:
    from asr.audio.files import AudioFile
    from asr.formats import Writer
    from asr.recognizer import Recognizer, StreamOptions

PROGRESS_AFTER = 2.0  # s of work before a progress bar appears


def transcribe(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Sound or video files; - is standard input.")],
    model: Model = "en",
    chunk_ms: ChunkMs = 320,
    look_ahead_ms: LookAheadMs = 320,
    second_pass: SecondPass = Switch.on,
    format: Annotated[Format, typer.Option("--format", "-f", help="Form of the output.")] = Format.txt,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of standard output.")
    ] = None,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Transcribe sound files of any format: text on standard output, a line for each utterance.

    Exit status 0: all done; 1: some inputs failed, the others are done; 2: wrong usage.
    """
    from asr.endpoint import EndpointRules
    from asr.formats import open_writer
    from asr.recognizer import StreamOptions

    refuse_overwriting(output, files)
    recognizer = load_recognizer(model, device, threads)
    options = StreamOptions(chunk_ms, look_ahead_ms, second_pass=second_pass is Switch.on, endpoint=EndpointRules())
    failed = 0
    with _open_output(output) as out:
        writer = open_writer(format.value, out, len(files))
        for file in files:
            try:
                _transcribe_one(recognizer, file, options, writer)
            except AudioError as error:
                failed += 1
                _tell(str(error))
        writer.close()
    if failed:
        raise typer.Exit(1)


def _transcribe_one(recognizer: Recognizer, file: str, options: StreamOptions, writer: Writer) -> None:
    from asr.audio.files import AudioFile
    from asr.events import Final

    with AudioFile(file, recognizer.sample_rate) as audio:
        stream, words = recognizer.stream(options), False
        writer.begin(file)
        try:
            with _progress(file, audio) as advance:
                for block in audio.blocks():
                    for event in stream.accept(block, recognizer.sample_rate):
                        writer.event(event)
                        words |= isinstance(event, Final)
                    advance(stream.seconds)
        finally:
            for event in stream.finish():
                writer.event(event)
                words |= isinstance(event, Final)
            writer.end()
        if audio.warning:
            _tell(audio.warning)
        if not stream.seconds:
            _tell(f"{file}: holds no sound (0 s long)")
        elif not words:
            _tell(f"{file}: no words heard in {stream.seconds:.1f} s")


def _tell(line: str) -> None:
    print(f"asr: {line}", file=sys.stderr, flush=True)


@contextmanager
def _open_output(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        yield sys.stdout
        return
    try:
        out = path.open("w", encoding="utf-8")
    except OSError as error:
        raise AsrError(f"cannot write {path}: {error.strerror}") from error
    with out:
        yield out


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
    task = bar.add_task(Path(file).name, total=audio.duration, position="")

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

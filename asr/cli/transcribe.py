"""`asr transcribe`: one recording to the screen as it is decoded, or thousands to files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from asr.cli.options import (
    DEVICE,
    MODEL,
    SOUND,
    TRANSCRIBE,
    AsNumbers,
    Beams,
    ChunkMs,
    Device,
    Engine,
    HotwordFile,
    HotwordTexts,
    LongestS,
    LookAheadMs,
    Model,
    Numbers,
    PauseMs,
    Plain,
    Precision,
    Products,
    Rate,
    Raw,
    ReplacementFile,
    SecondPass,
    SpokenPunctuation,
    Switch,
    Threads,
    Track,
    UnheardMs,
    Vad,
    complete_formats,
    load_recognizer,
    parse_channels,
    parse_formats,
    raw_format,
    read_hotwords,
    read_writing,
    refuse_overwriting,
)
from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.formats import Writer
    from asr.jobs.inputs import Input
    from asr.jobs.worker import Settings

FILES = "Many files"


def transcribe(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="Sound or video files, folders, patterns, manifests; - is a pipe."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="NAME",
            help="txt, json, jsonl, srt, vtt, ctm, tsv; for files several: txt,srt.",
            autocompletion=complete_formats,
        ),
    ] = "txt",
    timestamps: Annotated[
        bool,
        typer.Option("--timestamps", help="Begin each line of text with its times: \\[00:01.2 --> 00:04.8]."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output.")
    ] = None,
    model: Model = MODEL,
    listed: Annotated[
        str | None,
        typer.Option(
            "--list",
            metavar="FILE",
            help="Read more inputs from here, a line each; - is standard input.",
            rich_help_panel=FILES,
        ),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            "-d",
            metavar="DIR",
            help="A file for each input in this folder, tree kept.",
            rich_help_panel=FILES,
        ),
    ] = None,
    beside: Annotated[
        bool, typer.Option("--beside", help="A file for each input, beside it.", rich_help_panel=FILES)
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Pass over inputs whose files are there already.", rich_help_panel=FILES)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are there already.", rich_help_panel=FILES)
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write what failed, and totals, here as JSON. Default: in --output-dir.",
            rich_help_panel=FILES,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            max=1024,
            help="Processes. Default: what the files are worth.",
            rich_help_panel=FILES,
        ),
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="This machine, or a Ray cluster.", rich_help_panel=FILES)
    ] = Engine.local,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Of the Ray cluster. Default: RAY_ADDRESS, or this machine.",
            rich_help_panel=FILES,
        ),
    ] = None,
    chunk_ms: ChunkMs = TRANSCRIBE.chunk_ms,
    look_ahead_ms: LookAheadMs = TRANSCRIBE.look_ahead_ms,
    second_pass: SecondPass = Switch.on,
    beams: Beams = TRANSCRIBE.beams,
    pause_ms: PauseMs = TRANSCRIBE.pause_ms,
    unheard_ms: UnheardMs = TRANSCRIBE.unheard_ms,
    longest_s: LongestS = TRANSCRIBE.longest_s,
    vad: Vad = TRANSCRIBE.vad,
    hotword: HotwordTexts = None,
    hotwords: HotwordFile = None,
    numbers: AsNumbers = Numbers.as_heard,
    plain: Plain = False,
    spoken_punctuation: SpokenPunctuation = False,
    replacements: ReplacementFile = None,
    channels: Annotated[
        str,
        typer.Option(
            "--channels",
            metavar="HOW",
            help="mix them, or decode each as a speaker: separate. With --raw: how many, 2 or 2,separate.",
            rich_help_panel=SOUND,
        ),
    ] = "mix",
    track: Track = None,
    raw: Raw = None,
    rate: Rate = None,
    device: Device = DEVICE,
    threads: Threads = None,
    precision: Products = Precision.auto,
) -> None:
    """Transcribe sound files of any format: text on standard output, or files for each input.

    $ asr transcribe lecture.mp4 --timestamps
    $ asr transcribe calls/ --output-dir texts --format txt,srt

    Exit status: 0 all done; 1 some inputs failed, the others are done; 2 wrong
    usage, or no input gave any words.
    """
    from asr.formats import FORMATS, open_writer

    formats = parse_formats(format, FORMATS)
    separate, count = parse_channels(channels)
    headless = raw_format(raw, rate, count)
    _check_usage(files, listed, formats, output, output_dir, beside, resume or overwrite, timestamps)
    words = read_hotwords(hotword, hotwords)
    writing = read_writing(numbers, plain, spoken_punctuation, replacements)
    from asr.jobs.inputs import find_inputs

    inputs = find_inputs(files or [], listed)
    if not inputs:
        raise AsrError(f"{listed}: an empty list: it names no recording")
    refuse_overwriting(output, [item.path for item in inputs])
    piped = any(item.piped for item in inputs)
    to_files = output_dir is not None or beside
    if piped and engine is Engine.ray:
        raise AsrError("piped sound can be decoded on this machine only: leave --engine ray out")
    if not to_files and len(inputs) > 1 and formats[0] in ("srt", "vtt"):
        raise AsrError(f"{formats[0]} is for one recording: add --output-dir DIR or --beside for {len(inputs)}")
    from asr.jobs.worker import Settings
    from asr.recognition.endpoint import EndpointRules
    from asr.recognition.recognizer import StreamOptions

    rules = EndpointRules(pause=pause_ms / 1000, unheard=unheard_ms / 1000, longest=longest_s)
    second = second_pass is Switch.on
    options = StreamOptions(
        chunk_ms,
        look_ahead_ms,
        second_pass=second,
        beams=beams,
        endpoint=rules,
        vad=vad,
        hotwords=words,
        writing=writing,
    )
    settings = Settings(model, device, threads, options, separate, precision=precision.value, track=track, raw=headless)
    jobs = 1 if piped else jobs
    if to_files:
        from asr.cli.batch import transcribe_to_files

        status = transcribe_to_files(
            inputs, formats, output_dir, settings, jobs, engine, address, resume, overwrite, report
        )
    else:
        with _open_output(output) as out:
            writer = open_writer(formats[0], out, len(inputs), timestamps)
            status = _to_stream(inputs, writer, settings, jobs, engine, address, report)
    raise typer.Exit(status)


def _check_usage(
    files: list[str] | None,
    listed: str | None,
    formats: Sequence[str],
    output: Path | None,
    output_dir: Path | None,
    beside: bool,
    keeps_or_replaces: bool,
    timestamps: bool,
) -> None:
    if not files and listed is None:
        raise typer.BadParameter("nothing to transcribe: give an INPUT (FILE, folder, pattern, manifest) or --list")
    if listed == "-" and "-" in (files or []):
        raise typer.BadParameter("standard input is either a list or sound: leave --list - or the input - out")
    if output_dir is not None and beside:
        raise typer.BadParameter("--output-dir and --beside exclude each other: files lie in one place")
    if timestamps and list(formats) != ["txt"]:
        raise typer.BadParameter("--timestamps is for txt: the other formats have times already")
    if output_dir is None and not beside:
        if len(formats) > 1:
            raise typer.BadParameter("several formats need files to go to: add --output-dir DIR or --beside")
        if keeps_or_replaces:
            raise typer.BadParameter("--resume and --overwrite are about files: add --output-dir DIR or --beside")
    elif output is not None:
        raise typer.BadParameter("--output is one file for all: leave it out, or --output-dir and --beside")
    elif timestamps:
        raise typer.BadParameter(
            "--timestamps is for one text stream: for files with times choose --format tsv, srt, vtt"
        )


def _to_stream(
    inputs: Sequence[Input],
    writer: Writer,
    settings: Settings,
    jobs: int | None,
    engine: Engine,
    address: str | None,
    report: Path | None,
) -> int:
    """Everything to one writer; the exit status.

    Raises:
        AsrError: the only input cannot be read.
    """
    if len(inputs) == 1 and engine is Engine.local and inputs[0].error is None and report is None:
        recognizer = load_recognizer(settings.model, settings.device, settings.threads, Precision(settings.precision))
        from asr.cli.single import transcribe_one

        try:
            status = 0 if transcribe_one(recognizer, inputs[0], settings, writer) else 2
        except KeyboardInterrupt:
            writer.close()
            raise
    else:
        from asr.cli.batch import transcribe_to_stream

        status = transcribe_to_stream(inputs, writer, settings, jobs, engine, address, report)
    writer.close()
    return status


@contextmanager
def _open_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced when all has been written: what fails leaves an earlier one alone."""
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        yield sys.stdout
        return
    from asr.files import replacing

    if not path.parent.is_dir():
        raise AsrError(f"cannot write {path}: there is no folder {path.parent}")
    interrupt = None
    try:
        with replacing(path) as partial, partial.open("w", encoding="utf-8", errors="replace") as out:
            try:
                yield out
            except KeyboardInterrupt as error:  # it may be how a recording ends: what was said so far is kept
                if not out.tell():
                    raise
                interrupt = error
    except OSError as error:
        raise AsrError(f"cannot write {path}: {error.strerror or error}") from error
    if interrupt is not None:
        raise interrupt

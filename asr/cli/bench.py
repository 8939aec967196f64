"""`asr bench`: measurements on this machine."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.options import (
    DEVICE,
    LIVE,
    MACHINE,
    MODEL,
    SPEED,
    Beams,
    Device,
    Model,
    Partials,
    Precision,
    Products,
    SecondPass,
    Switch,
    Vad,
    load_recognizer,
)
from asr.errors import AsrError
from asr.files import write_whole

if TYPE_CHECKING:
    from asr.evaluation.latency import LatencyReport, Spoken

bench = typer.Typer(no_args_is_help=True)
MODES = "160+160,320+0,320+320,640+0"
COLUMNS = (  # what, of which percentiles
    ("to screen", "words", (50, 90, 99)),
    ("waiting", "algorithmic", (50, 90, 99)),
    ("computing", "computing", (50, 90, 99)),
    ("chunk", "chunks", (50, 99)),
    ("final", "finals", (50, 99)),
    ("after speech", "ends", (50, 99)),
)
LEGEND = """\
milliseconds: word end to screen = waiting for sound + computing; chunk: to compute one; final: from the endpoint to
its text; after speech: from the last word's end to it. WER of the finals, of the last partial before each, and of the
words as they stood 1 s after each had been said. Taken back: words of partials for each word of the finals."""


class Clock(str, Enum):
    wall = "wall"
    cpu = "cpu"


@bench.callback()
def _bench() -> None:
    """Measure this machine: how long words take to the screen.

    $ asr bench latency talk.flac
    $ asr bench latency test.jsonl --modes 160+160,320+320
    """


@bench.command()
def latency(
    recordings: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Sound files, or manifests (.jsonl).")],
    modes: Annotated[
        str,
        typer.Option("--modes", metavar="MS+MS,...", help="Chunk + look-ahead in milliseconds, separated by commas."),
    ] = MODES,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="At most so many utterances of each manifest.")
    ] = 20,
    json_output: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here.")] = None,
    model: Model = MODEL,
    partials: Annotated[
        Partials, typer.Option("--partials", help="What reads the partials.", rich_help_panel=SPEED)
    ] = Partials.decoder,
    second_pass: SecondPass = Switch.on,
    beams: Beams = LIVE.beams,
    vad: Vad = LIVE.vad,
    clock: Annotated[
        Clock,
        typer.Option(
            "--clock",
            help="wall; or cpu: the time of this process alone, on a busy machine with --threads 1.",
            rich_help_panel=MACHINE,
        ),
    ] = Clock.wall,
    device: Device = DEVICE,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, max=1024, help="Processor threads.", rich_help_panel=MACHINE)
    ] = 1,
    precision: Products = Precision.auto,
) -> None:
    """Word end to word on the screen, endpoint to final, time a chunk takes, how right and how steady partials are.

    $ asr bench latency talk.flac
    $ asr bench latency test.jsonl --modes 160+160,320+320 --json latency.json

    Recordings are fed as a microphone would, in blocks of 20 ms; waiting is
    simulated, computing is measured.
    """
    import time

    from asr.evaluation.latency import LatencyReport, measure_latency
    from asr.recognition.endpoint import EndpointRules
    from asr.recognition.recognizer import StreamOptions

    pairs = [_mode(text) for text in modes.split(",")]
    recognizer = load_recognizer(model, device, threads, precision)
    sounds = _read(recordings, limit, recognizer.sample_rate)
    seconds = sum(len(sound.samples) for sound in sounds) / recognizer.sample_rate
    print(f"{len(sounds)} recordings, {seconds:.0f} s, in each mode")
    print(LEGEND)
    print(_head(), flush=True)
    results = {}
    for chunk_ms, look_ahead_ms in pairs:
        report = LatencyReport()
        options = StreamOptions(
            chunk_ms,
            look_ahead_ms,
            second_pass=second_pass is Switch.on,
            beams=beams,
            partials=partials.value,
            endpoint=EndpointRules(pause=LIVE.pause_ms / 1000),
            vad=vad,
        )
        timer = time.perf_counter if clock is Clock.wall else time.process_time
        measure_latency(recognizer, sounds, options, report, timer)
        name = f"{chunk_ms:g}+{look_ahead_ms:g}"
        results[name] = report.as_dict()
        print(_row(name, report), flush=True)
        if report.stable_taken_back:
            print(f"{report.stable_taken_back} words that were shown as stable were taken back")
    if json_output is not None:
        try:
            write_whole(json_output, json.dumps(results, indent=1) + "\n")
        except OSError as error:
            raise AsrError(f"cannot write {json_output}: {error.strerror}") from error


def _read(paths: list[Path], limit: int, rate: int) -> list[Spoken]:
    from asr.audio.files import read_audio
    from asr.evaluation.latency import Spoken
    from asr.manifest import Manifest

    sounds = []
    for path in paths:
        if path.suffix == ".jsonl":
            corpus = Manifest(path)
            sounds += [Spoken(corpus.read_audio(utterance, rate), utterance.text) for utterance in corpus[:limit]]
        else:
            sounds.append(Spoken(read_audio(path, rate)))
    return sounds


def _head() -> str:
    """Two lines over the rows."""
    top, under = f"{'':>9}  {'WER in percent':^20}", f"{'mode':>9}  {'final   last    1 s':>20}"
    for name, _, percentiles in COLUMNS:
        width = 6 * len(percentiles)
        top += "  " + f"{name:^{width}}"
        under += "  " + "".join(f"{f'p{q}':>6}" for q in percentiles)
    return f"{top}    load  taken back\n{under}"


def _row(name: str, report: LatencyReport) -> str:
    rates = (report.final_errors, report.last_errors, report.soon_errors)
    row = f"{name:>9}  {rates[0].wer:6.2f}" + "".join(f"{rate.wer:7.2f}" for rate in rates[1:])
    for _, values, percentiles in COLUMNS:
        row += "  " + "".join(f"{report.percentile(values, q):6.0f}" for q in percentiles)
    return f"{row}  {report.load:6.3f}  {report.unstable_ratio:10.2f}"


def _mode(text: str) -> tuple[float, float]:
    chunk, plus, look_ahead = text.partition("+")
    try:
        return float(chunk), float(look_ahead) if plus else 0.0
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no mode such as 320+320", param_hint="--modes") from error

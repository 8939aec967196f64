"""`asr evaluate`: word and character error rates of a manifest."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from asr.cli.options import (
    DEVICE,
    EVALUATE,
    MODEL,
    SPEED,
    UTTERANCES,
    Beams,
    ChunkMs,
    Device,
    LookAheadMs,
    Model,
    Precision,
    Products,
    Stage,
    Threads,
    Vad,
    load_recognizer,
)
from asr.cli.tell import tell
from asr.errors import AsrError
from asr.files import write_whole
from asr.text import printable


def evaluate(
    manifest: Annotated[
        Path, typer.Argument(help="JSONL with audio_filepath, duration and text; files loose or in a tar.")
    ],
    model: Model = MODEL,
    json_output: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write results, per file and total, here.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many utterances.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The total only, no line for each file.")] = False,
    stage: Annotated[
        Stage,
        typer.Option("--stage", help="Which text: second pass, greedy CTC, or last partials.", rich_help_panel=SPEED),
    ] = Stage.final,
    chunk_ms: ChunkMs = EVALUATE.chunk_ms,
    look_ahead_ms: LookAheadMs = EVALUATE.look_ahead_ms,
    utterances: Annotated[
        bool,
        typer.Option(
            "--utterances",
            help="Each file is one utterance; default: the recogniser's own endpoints.",
            rich_help_panel=UTTERANCES,
        ),
    ] = False,
    beams: Beams = EVALUATE.beams,
    vad: Vad = EVALUATE.vad,
    device: Device = DEVICE,
    threads: Threads = None,
    precision: Products = Precision.auto,
) -> None:
    """Score a manifest: WER and CER with substitutions, deletions and insertions, and the real-time factor.

    $ asr evaluate test.jsonl --utterances
    $ asr evaluate test.jsonl --model runs/mine/model --json scores.json

    Texts are compared strictly, as the model was taught to write them (the
    English one: in lower case, digits as words, without punctuation), and
    normalised as the field does it: numbers, abbreviations and spellings alike.
    """
    from asr.evaluation.report import evaluate_manifest
    from asr.manifest import Manifest
    from asr.recognition.endpoint import EndpointRules
    from asr.recognition.recognizer import StreamOptions

    corpus = Manifest(manifest)
    recognizer = load_recognizer(model, device, threads, precision)
    options = StreamOptions(
        chunk_ms,
        look_ahead_ms,
        second_pass=stage is Stage.final,
        beams=beams,
        partials="decoder" if stage is Stage.partial else "off",
        endpoint=None if utterances else EndpointRules(),
        vad=vad,
    )
    begun = time.monotonic()
    report = evaluate_manifest(recognizer, corpus, options, limit)
    for result in report.files():
        if not quiet:
            e = result.errors
            counts = f"S {e.substitutions:<3} D {e.deletions:<3} I {e.insertions:<3}"
            print(f"{e.wer:6.2f} %  {counts} {printable(result.name)}", flush=True)
        elif sys.stderr.isatty():
            print(f"\r{report.count} of {report.expected}", end="\r", file=sys.stderr)
    for line in report.warnings + report.failures:
        tell(line)
    if not report.results:
        raise typer.Exit(2)
    total, normalised = report.total, report.normalised
    damaged = f", {len(report.warnings)} damaged or misstated" if report.warnings else ""
    print(
        f"WER {total.wer:.2f} %  CER {total.cer:.2f} %  normalised WER {normalised.wer:.2f} %\n"
        f"words {total.words}  substitutions {total.substitutions}  "
        f"deletions {total.deletions}  insertions {total.insertions}\n"
        f"audio {report.audio_seconds:.1f} s  RTF {report.rtf:.3f}  "
        f"({report.count} files in {time.monotonic() - begun:.0f} s{damaged})"
    )
    if json_output is not None:
        try:
            write_whole(json_output, json.dumps(report.as_dict(), ensure_ascii=False, indent=1) + "\n")
        except OSError as error:
            raise AsrError(f"cannot write {json_output}: {error.strerror}") from error
    if report.failures:
        raise typer.Exit(1)

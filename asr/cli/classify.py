"""`asr classify`: which word of a small vocabulary is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from asr.cli.options import Threads
from asr.cli.tell import tell
from asr.text import printable


def classify(
    files: Annotated[list[str], typer.Argument(help="Sound files of any format, - for standard input.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="DIR", help="The folder of a classifier. Default: the built-in one."),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="How many labels to show for each stretch of speech.")
    ] = 3,
    json_lines: Annotated[bool, typer.Option("--json", help="All probabilities, a JSON object a file.")] = False,
    threads: Threads = None,
) -> None:
    """Tell which word is said: a digit, a wake word (alexa, computer, jarvis, ...) or something else.

    $ asr classify digit.wav
    $ asr classify --json commands/*.wav
    """
    import torch

    from asr.audio.files import read_audio
    from asr.errors import AudioError
    from asr.nn.commands import BUILT_IN, CommandClassifier

    if threads:
        torch.set_num_threads(threads)
    classifier = CommandClassifier.load(model or BUILT_IN)
    failed = 0
    for name in files:
        try:
            verdicts = classifier.classify(torch.from_numpy(read_audio(name)))
        except AudioError as error:
            tell(str(error))
            failed += 1
            continue
        if json_lines:
            stretches = [
                {"start": round(v.start, 3), "end": round(v.end, 3), "probabilities": _rounded(v.probabilities)}
                for v in verdicts
            ]
            print(json.dumps({"file": name, "stretches": stretches}, ensure_ascii=False), flush=True)
            continue
        if len(files) > 1:
            print(f"{printable(name)}:")
        for verdict in verdicts:
            best = list(verdict.probabilities.items())[:top]
            guesses = "  ".join(f"{label} {100 * p:.1f} %" for label, p in best)
            print(f"{verdict.start:7.2f} - {verdict.end:.2f} s  {guesses}", flush=True)
        if not verdicts:
            print("no speech", flush=True)
    if failed:
        raise typer.Exit(2 if failed == len(files) else 1)


def _rounded(probabilities: dict[str, float]) -> dict[str, float]:
    return {label: round(p, 4) for label, p in probabilities.items()}

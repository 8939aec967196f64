"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.recognizer import Recognizer


class Switch(str, Enum):
    on = "on"
    off = "off"


class Format(str, Enum):
    txt = "txt"
    json = "json"
    jsonl = "jsonl"


class Partials(str, Enum):
    decoder = "decoder"
    ctc = "ctc"
    off = "off"


class Stage(str, Enum):
    final = "final"
    ctc = "ctc"
    partial = "partial"


LONGEST_MS = 60_000  # of a chunk or a look-ahead

Model = Annotated[str, typer.Option("--model", "-m", help="A built-in model's name, or the folder of a trained one.")]
ChunkMs = Annotated[
    float, typer.Option("--chunk-ms", min=24, max=LONGEST_MS, help="Milliseconds that are decoded at a time.")
]
LookAheadMs = Annotated[
    float, typer.Option("--look-ahead-ms", min=0, max=LONGEST_MS, help="Milliseconds after each chunk that it may see.")
]
SecondPass = Annotated[
    Switch,
    typer.Option("--second-pass", help="on: finals by the attention decoder. off: greedy CTC, hardly readable."),
]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, ...")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="Processor threads. Default: one a core.")
]


def refuse_overwriting(output: Path | None, inputs: Iterable[str]) -> None:
    """AsrError when the file that shall be written is one of those that shall be read."""
    if output is None or not output.exists():
        return
    for name in inputs:
        if name != "-" and Path(name).exists() and output.samefile(name):
            raise AsrError(f"{output}: would be overwritten, and it is an input: give another --output")


def load_recognizer(model: str, device: str, threads: int | None) -> Recognizer:
    """The recogniser, or one clear line why there is none."""
    from asr.device import usable_device
    from asr.recognizer import Recognizer

    return Recognizer.load(model, device=str(usable_device(device)), threads=threads)

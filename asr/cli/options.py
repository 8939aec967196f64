"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.recognition.recognizer import Recognizer


class Switch(str, Enum):
    on = "on"
    off = "off"


class Channels(str, Enum):
    mix = "mix"
    separate = "separate"


class Engine(str, Enum):
    local = "local"
    ray = "ray"


class Partials(str, Enum):
    auto = "auto"
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
PauseMs = Annotated[float, typer.Option("--pause-ms", min=100, help="Silence that ends an utterance; inf: none does.")]
LongestS = Annotated[
    float, typer.Option("--longest-s", min=2, help="Seconds after which an utterance is cut at its best pause.")
]
UnheardMs = Annotated[
    float, typer.Option("--unheard-ms", min=100, help="Noise without words that ends an utterance; inf: none does.")
]
Vad = Annotated[
    bool,
    typer.Option("--vad/--no-vad", help="A speech gate: noise becomes no words and holds no utterance open."),
]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, ...")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="Processor threads: one a core if not given.")
]


def refuse_overwriting(output: Path | None, inputs: Iterable[str]) -> None:
    """AsrError when the file that shall be written is one of those that shall be read."""
    if output is None or not output.exists():
        return
    for name in inputs:
        if name != "-" and Path(name).exists() and output.samefile(name):
            raise AsrError(f"{output}: would be overwritten, and it is an input: give another --output")


def parse_formats(names: str, known: Iterable[str]) -> list[str]:
    """The formats of a list with commas.

    Raises:
        typer.BadParameter: one that there is not, or none.
    """
    formats = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in formats:
        if name not in known:
            raise typer.BadParameter(f"no format {name}: choose of {', '.join(known)}")
    if not formats:
        raise typer.BadParameter(f"no format is named: choose of {', '.join(known)}")
    return formats


def load_recognizer(model: str, device: str, threads: int | None) -> Recognizer:
    """The recogniser, or one clear line why there is none."""
    from asr.nn.device import usable_device
    from asr.recognition.recognizer import Recognizer

    return Recognizer.load(model, device=str(usable_device(device)), threads=threads)

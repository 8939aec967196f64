"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.errors import AsrError, AudioError

if TYPE_CHECKING:
    from asr.audio.raw import RawFormat
    from asr.recognition.recognizer import Recognizer


class Switch(str, Enum):
    on = "on"
    off = "off"


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

Track = Annotated[
    int | None,
    typer.Option("--track", min=1, help="Which sound track of a film, from 1. Default: the one that is flagged so."),
]
Raw = Annotated[
    str | None,
    typer.Option(
        "--raw", help="The sound has no header: samples of this coding, s16le, f32le, mulaw, ...; see --rate."
    ),
]
Rate = Annotated[int | None, typer.Option("--rate", help="With --raw: samples a second. Default: 16000.")]


def raw_format(coding: str | None, rate: int | None, channels: int | None) -> RawFormat | None:
    """What `--raw`, `--rate` and `--channels` say together.

    Raises:
        typer.BadParameter: something that raw samples cannot be, or a rate or a number of channels without `--raw`.
    """
    if coding is None:
        if rate is not None or channels is not None:
            raise typer.BadParameter("--rate and a number of --channels are for samples without a header: add --raw")
        return None
    from asr.audio.raw import RawFormat

    try:
        return RawFormat(coding, 16000 if rate is None else rate, 1 if channels is None else channels)
    except AudioError as error:
        raise typer.BadParameter(str(error)) from error


def parse_channels(words: str) -> tuple[bool, int | None]:
    """`--channels` of recordings: whether they are kept apart, and how many raw samples have.

    Raises:
        typer.BadParameter: neither mix nor separate, nor a number.
    """
    separate, count = False, None
    for word in words.split(","):
        if word.strip().isdecimal():
            count = int(word)
        elif word.strip() in ("mix", "separate"):
            separate = word.strip() == "separate"
        else:
            raise typer.BadParameter(f"--channels {words}: mix, separate, or with --raw a number: 2 or 2,separate")
    return separate, count


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

"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.tell import tell
from asr.errors import AsrError, AudioError, ConfigError

if TYPE_CHECKING:
    from asr.audio.raw import RawFormat
    from asr.recognition.recognizer import Recognizer
    from asr.search.hotwords import Hotword
    from asr.writing.rewriting import Writing


class Switch(str, Enum):
    on = "on"
    off = "off"


class Engine(str, Enum):
    local = "local"
    ray = "ray"


class Precision(str, Enum):
    auto = "auto"
    float32 = "float32"
    bf16 = "bf16"
    int8 = "int8"


class Partials(str, Enum):
    auto = "auto"
    decoder = "decoder"
    ctc = "ctc"
    off = "off"


class Stage(str, Enum):
    final = "final"
    ctc = "ctc"
    partial = "partial"


class Numbers(str, Enum):
    as_heard = "as-heard"
    digits = "digits"
    words = "words"


# Groups of options in the help of a command, under what it always shows
SPEED = "Speed and accuracy"
UTTERANCES = "Where utterances begin and end"
SOUND = "Sound"
MACHINE = "Machine"


@dataclass(frozen=True)
class Defaults:
    """What commands do where no option says otherwise: the one table of it, from which each help is printed."""

    chunk_ms: float = 320
    look_ahead_ms: float = 320
    pause_ms: float = 1200
    unheard_ms: float = 5000
    longest_s: float = 30
    vad: bool = False
    beams: int = 4


EVALUATE = Defaults()
TRANSCRIBE = Defaults(chunk_ms=640)
LIVE = Defaults(pause_ms=800, vad=True)
MODEL, DEVICE = "en", "cpu"
WORDS = "Your words"

LONGEST_MS = 60_000  # of a chunk or a look-ahead

Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A built-in model, or the folder of a trained one.")
]
ChunkMs = Annotated[
    float,
    typer.Option(
        "--chunk-ms",
        metavar="MS",
        min=24,
        max=LONGEST_MS,
        help="Milliseconds that are decoded at a time.",
        rich_help_panel=SPEED,
    ),
]
LookAheadMs = Annotated[
    float,
    typer.Option(
        "--look-ahead-ms",
        metavar="MS",
        min=0,
        max=LONGEST_MS,
        help="Milliseconds after each chunk that it may see.",
        rich_help_panel=SPEED,
    ),
]
SecondPass = Annotated[
    Switch,
    typer.Option(
        "--second-pass",
        help="on: finals by the attention decoder. off: greedy CTC, hardly readable.",
        rich_help_panel=SPEED,
    ),
]
Beams = Annotated[
    int,
    typer.Option(
        "--beams",
        metavar="N",
        min=1,
        max=16,
        help="Texts that finals are chosen from where the decoder is in doubt. 1: faster, a tenth more errors.",
        rich_help_panel=SPEED,
    ),
]
PauseMs = Annotated[
    float,
    typer.Option(
        "--pause-ms",
        metavar="MS",
        min=100,
        help="Silence that ends an utterance; inf: none does.",
        rich_help_panel=UTTERANCES,
    ),
]
UnheardMs = Annotated[
    float,
    typer.Option(
        "--unheard-ms",
        metavar="MS",
        min=100,
        help="Noise without words that ends an utterance; inf: none does.",
        rich_help_panel=UTTERANCES,
    ),
]
LongestS = Annotated[
    float,
    typer.Option(
        "--longest-s",
        metavar="SECONDS",
        min=2,
        help="Length at which an utterance is cut at its best pause.",
        rich_help_panel=UTTERANCES,
    ),
]
Vad = Annotated[
    bool,
    typer.Option(
        "--vad/--no-vad",
        help="A speech gate: noise becomes no words and holds no utterance open.",
        rich_help_panel=UTTERANCES,
    ),
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ...", rich_help_panel=MACHINE)
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        max=1024,
        help="Processor threads. Default: one a core.",
        rich_help_panel=MACHINE,
    ),
]

Products = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="Of the encoder's products. auto: the fastest on this processor that costs no words.",
        rich_help_panel=MACHINE,
    ),
]

InputDevice = Annotated[
    str | None,
    typer.Option(
        "--input-device", "-i", metavar="NAME", help="Microphone: index or part of the name, see asr devices."
    ),
]
HotwordTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--hotword",
        metavar="TEXT",
        help="A name or phrase that is likelier than others; may come several times.",
        rich_help_panel=WORDS,
    ),
]
HotwordFile = Annotated[
    Path | None,
    typer.Option(
        "--hotwords",
        metavar="FILE",
        help="A list of them, a line each: TEXT, or TEXT = how it is said, another way * WEIGHT.",
        rich_help_panel=WORDS,
    ),
]
AsNumbers = Annotated[
    Numbers,
    typer.Option(
        "--numbers",
        help="digits: 25, $2.50, May 3rd, 5:30. words: twenty-five. as-heard: as the model writes them.",
        rich_help_panel=WORDS,
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Lower case, no punctuation.", rich_help_panel=WORDS)]
SpokenPunctuation = Annotated[
    bool,
    typer.Option(
        "--spoken-punctuation",
        help="comma, full stop, question mark, new line, open quote, ... are marks, unless they are talked about.",
        rich_help_panel=WORDS,
    ),
]
ReplacementFile = Annotated[
    Path | None,
    typer.Option(
        "--replacements",
        metavar="FILE",
        help="What is written instead, a line each: PATTERN => TEXT, a regular expression in any case.",
        rich_help_panel=WORDS,
    ),
]
Track = Annotated[
    int | None,
    typer.Option(
        "--track",
        metavar="N",
        min=1,
        help="Which sound track of a film, from 1. Default: the one that is flagged so.",
        rich_help_panel=SOUND,
    ),
]
Raw = Annotated[
    str | None,
    typer.Option(
        "--raw",
        metavar="CODING",
        help="The sound has no header: samples as s16le, f32le, mulaw, ...",
        rich_help_panel=SOUND,
    ),
]
Rate = Annotated[
    int | None,
    typer.Option(
        "--rate",
        metavar="HERTZ",
        help="With --raw: samples a second. Default: 16000.",
        rich_help_panel=SOUND,
    ),
]


def read_hotwords(words: Sequence[str] | None, path: Path | None) -> tuple[Hotword, ...]:
    """What `--hotword` and `--hotwords` say together; what is beyond what was found to do no harm is said.

    Raises:
        AsrError: the list cannot be read, or a line of it is no hotword.
    """
    if not words and path is None:
        return ()
    from asr.search.hotwords import SAFE, SAFE_LIST, parse_hotword

    lines = [*(words or ()), *(line for _, line in ([] if path is None else _lines("--hotwords", path)))]
    found = tuple(map(parse_hotword, lines))
    if len(found) > SAFE_LIST:
        tell(f"{len(found)} hotwords: with more than {SAFE_LIST} other words may come out wrong")
    for word in found:
        if word.weight > SAFE:
            tell(f"hotword {word.text}: above weight {SAFE:g} other words may come out wrong")
    return found


def read_writing(numbers: Numbers, plain: bool, spoken_punctuation: bool, path: Path | None) -> Writing:
    """What `--numbers`, `--plain`, `--spoken-punctuation` and `--replacements` say together.

    Raises:
        AsrError: the list cannot be read, or a line of it is no replacement.
    """
    from asr.writing.replacements import parse_replacement
    from asr.writing.rewriting import Writing

    replacements = []
    for number, line in [] if path is None else _lines("--replacements", path):
        try:
            replacements.append(parse_replacement(line))
        except ConfigError as error:
            raise ConfigError(f"--replacements {path}, line {number}: {error}") from error
    return Writing(numbers.value, plain, spoken_punctuation, replacements)


def _lines(option: str, path: Path) -> list[tuple[int, str]]:
    """The lines of a list and their numbers, without those that are empty or begin with #."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise AsrError(f"{option} {path}: {reason}") from error
    lines = enumerate(text.splitlines(), start=1)
    return [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]


def complete_formats(incomplete: str) -> list[str]:
    """What the shell offers for a list of formats with commas: one more that it does not name yet."""
    from asr.formats import FORMATS

    named, comma, _ = incomplete.rpartition(",")
    return [named + comma + name for name in FORMATS if name not in named.split(",")]


def raw_format(coding: str | None, rate: int | None, channels: int | None) -> RawFormat | None:
    """What `--raw`, `--rate` and `--channels` say together.

    Raises:
        typer.BadParameter: something that raw samples cannot be, or a rate or a number of channels without `--raw`.
    """
    given = {name: value for name, value in (("rate", rate), ("channels", channels)) if value is not None}
    if coding is None:
        if given:
            raise typer.BadParameter("--rate and a number of --channels are for samples without a header: add --raw")
        return None
    from asr.audio.raw import RawFormat

    try:
        return RawFormat(coding, **given)
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


def load_recognizer(model: str, device: str, threads: int | None, precision: Precision = Precision.auto) -> Recognizer:
    """The recogniser, or one clear line why there is none."""
    from asr.recognition.recognizer import Recognizer

    return Recognizer.load(model, device=device, threads=threads, precision=precision.value)

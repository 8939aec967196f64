"""`asr dictate`: what is said is typed into the window that has the focus."""

from __future__ import annotations

import os
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.listening import Signals, quiet_libraries, summarise
from asr.cli.options import (
    DEVICE,
    LIVE,
    MODEL,
    SPEED,
    AsNumbers,
    Beams,
    ChunkMs,
    Device,
    HotwordFile,
    HotwordTexts,
    InputDevice,
    LongestS,
    LookAheadMs,
    Model,
    Numbers,
    Partials,
    PauseMs,
    Plain,
    Precision,
    Products,
    ReplacementFile,
    SecondPass,
    SpokenPunctuation,
    Switch,
    Threads,
    UnheardMs,
    Vad,
    load_recognizer,
    read_hotwords,
    read_writing,
)
from asr.cli.tell import tell
from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.dictation.writing import Writer

HOT_KEYS = "For hot keys of the desktop: tells the asr dictate that runs"


class How(str, Enum):
    paste = "paste"
    keys = "keys"


class Announce(str, Enum):
    sound = "sound"
    notification = "notification"
    off = "off"


def dictate(
    input_device: InputDevice = None,
    typing: Annotated[
        How,
        typer.Option(
            "--typing",
            help="paste: by the clipboard, with any keyboard layout; what it held is put back. "
            "keys: one by one, where there are any for it.",
        ),
    ] = How.paste,
    command: Annotated[
        str | None,
        typer.Option(
            "--command", metavar="CMD", help="Nothing is typed: this shell command gets each final on standard input."
        ),
    ] = None,
    announce: Annotated[
        Announce, typer.Option("--announce", help="How beginning and end are told: two tones up, or down.")
    ] = Announce.sound,
    wait: Annotated[bool, typer.Option("--wait", help="Load the model, and listen only when told to.")] = False,
    begin: Annotated[bool, typer.Option("--begin", help="Listen; starts it.", rich_help_panel=HOT_KEYS)] = False,
    end: Annotated[
        bool, typer.Option("--end", help="Finish the utterance, then wait.", rich_help_panel=HOT_KEYS)
    ] = False,
    toggle: Annotated[
        bool, typer.Option("--toggle", help="Begin or end; starts it.", rich_help_panel=HOT_KEYS)
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Drop the open utterance, then wait.", rich_help_panel=HOT_KEYS)
    ] = False,
    quit: Annotated[bool, typer.Option("--quit", help="End, also the waiting.", rich_help_panel=HOT_KEYS)] = False,
    model: Model = MODEL,
    chunk_ms: ChunkMs = LIVE.chunk_ms,
    look_ahead_ms: LookAheadMs = LIVE.look_ahead_ms,
    second_pass: SecondPass = Switch.on,
    beams: Beams = LIVE.beams,
    partials: Annotated[
        Partials,
        typer.Option(
            "--partials",
            help="Words are typed while they are said, and corrected by backspace; see asr live.",
            rich_help_panel=SPEED,
        ),
    ] = Partials.off,
    pause_ms: PauseMs = LIVE.pause_ms,
    unheard_ms: UnheardMs = LIVE.unheard_ms,
    longest_s: LongestS = LIVE.longest_s,
    vad: Vad = LIVE.vad,
    hotword: HotwordTexts = None,
    hotwords: HotwordFile = None,
    numbers: AsNumbers = Numbers.as_heard,
    plain: Plain = False,
    spoken_punctuation: SpokenPunctuation = False,
    replacements: ReplacementFile = None,
    device: Device = DEVICE,
    threads: Threads = None,
    precision: Products = Precision.auto,
) -> None:
    """Type what you say into the window that has the focus. Ctrl-C ends.

    $ asr dictate
    $ asr dictate --toggle --announce notification

    Needs xdotool and xclip on X11, wtype or ydotool and wl-clipboard on Wayland. Exit status: 0 ended; 2 no microphone,
    no desktop, none running to be told, wrong usage.
    """
    if os.name != "posix":
        raise AsrError("asr dictate is for Linux and macOS")
    from asr.dictation.control import Control, Order, send

    flags = {"begin": begin, "end": end, "toggle": toggle, "cancel": cancel, "quit": quit}
    orders = [Order(name) for name, given in flags.items() if given]
    if len(orders) + wait > 1:
        raise typer.BadParameter("--wait, --begin, --end, --toggle, --cancel and --quit exclude each other")
    if command is not None and partials is not Partials.off:
        raise typer.BadParameter("--command gets finals only: leave --partials out")
    if orders:
        answer = send(orders[0])
        if answer is not None:
            tell(answer)
            return
        if orders[0] not in (Order.begin, Order.toggle):
            raise AsrError("no dictation runs: asr dictate starts one")
    words = read_hotwords(hotword, hotwords)
    writing = read_writing(numbers, plain, spoken_punctuation, replacements)
    writer = _open_writer(typing, command)
    with Signals() as signals, ExitStack() as resources:
        from asr.audio.microphone import Microphone
        from asr.dictation.announcing import announcer
        from asr.dictation.dictation import Dictation
        from asr.dictation.writing import Dictated

        dictation = Dictation(
            open_source=lambda: Microphone(input_device, warn=tell),
            open_stream=lambda: recognizer.stream(options, tell),
            open_view=lambda: Dictated(writer, partials is not Partials.off, tell),
            announce=announcer(announce.value),
            tell=tell,
            summarise=summarise,
        )
        if not wait:
            dictation.obey(Order.begin)
        resources.enter_context(Control(dictation.obey))
        resources.enter_context(quiet_libraries())
        Microphone(input_device)  # if there is none, that is told before the model is loaded
        from asr.recognition.endpoint import EndpointRules
        from asr.recognition.options import StreamOptions

        recognizer = load_recognizer(model, device, threads, precision)
        options = StreamOptions(
            chunk_ms=chunk_ms,
            look_ahead_ms=look_ahead_ms,
            second_pass=second_pass is Switch.on,
            beams=beams,
            partials=partials.value,
            endpoint=EndpointRules(pause_ms / 1000, unheard_ms / 1000, longest_s),
            vad=vad,
            hotwords=words,
            writing=writing,
        )
        if wait:
            tell("waiting for asr dictate --begin or --toggle")
        signals.finish(dictation)
        dictation.run()


def _open_writer(typing: How, command: str | None) -> Writer:
    from asr.dictation.writing import Pasting, Piping, Typing

    if command is not None:
        return Piping(command)
    return Pasting() if typing is How.paste else Typing()

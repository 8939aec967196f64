"""`asr live`: words while you speak, from a microphone or from a recording at real-time pace."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from asr.cli.listening import Signals, quiet_libraries, summarise
from asr.cli.options import (
    DEVICE,
    LIVE,
    MODEL,
    SOUND,
    SPEED,
    AsNumbers,
    Beams,
    ChunkMs,
    Device,
    HotwordFile,
    HotwordTexts,
    LongestS,
    LookAheadMs,
    Model,
    Numbers,
    Partials,
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
    load_recognizer,
    raw_format,
    read_hotwords,
    read_writing,
    refuse_overwriting,
)
from asr.cli.tell import tell
from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.audio.microphone import Microphone
    from asr.audio.playback import Playback
    from asr.cli.display import LiveDisplay
    from asr.cli.speakers import Labelled
    from asr.events import Event
    from asr.formats.writers import Writer
    from asr.serve.client import RemoteStream

ELSEWHERE = "Decoding elsewhere"
RECORDING = "A recording in the microphone's place"  # options of it, in the help


class LiveFormat(str, Enum):
    auto = "auto"
    txt = "txt"
    json = "json"
    jsonl = "jsonl"


def live(
    input_device: Annotated[
        list[str] | None,
        typer.Option(
            "--input-device",
            "-i",
            metavar="NAME",
            help="Microphone: index or part of the name, see asr devices; monitor: what the computer plays. Several: "
            "a channel each.",
        ),
    ] = None,
    format: Annotated[
        LiveFormat,
        typer.Option(
            "--format", "-f", help="auto: the live display on a terminal, elsewhere txt, a line an utterance."
        ),
    ] = LiveFormat.auto,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Append each utterance to this file.")
    ] = None,
    save_audio: Annotated[
        Path | None,
        typer.Option("--save-audio", metavar="FILE", help="Keep the sound in this new .flac or .wav file."),
    ] = None,
    model: Model = MODEL,
    chunk_ms: ChunkMs = LIVE.chunk_ms,
    look_ahead_ms: LookAheadMs = LIVE.look_ahead_ms,
    second_pass: SecondPass = Switch.on,
    beams: Beams = LIVE.beams,
    partials: Annotated[
        Partials,
        typer.Option(
            "--partials",
            help="Words while they are said: by the attention decoder, by greedy CTC (auto: when the decoder is too "
            "slow here), or not.",
            rich_help_panel=SPEED,
        ),
    ] = Partials.auto,
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
    input: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="This recording instead of a microphone; - is a pipe.",
            rich_help_panel=RECORDING,
        ),
    ] = None,
    realtime: Annotated[
        bool,
        typer.Option(
            "--realtime/--fast", help="At the pace of speech, or as fast as possible.", rich_help_panel=RECORDING
        ),
    ] = True,
    track: Track = None,
    raw: Raw = None,
    rate: Rate = None,
    channels: Annotated[
        int | None,
        typer.Option("--channels", metavar="N", min=1, help="With --raw: how many. Default: 1.", rich_help_panel=SOUND),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Send the sound to asr serve at ws://host:port; what is said of decoding here does not count there.",
            rich_help_panel=ELSEWHERE,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TEXT", envvar="ASR_TOKEN", help="That the server wants.", rich_help_panel=ELSEWHERE
        ),
    ] = None,
    device: Device = DEVICE,
    threads: Threads = None,
    precision: Products = Precision.auto,
) -> None:
    """Write down what is said while it is said. Ctrl-C finishes the utterance and ends; once more, it ends at once.

    $ asr live --output notes.txt
    $ asr live --input talk.mp4 --chunk-ms 160

    Exit status: 0 ended by Ctrl-C, SIGTERM or the end of the recording;
    2 nothing to listen to, a recording without words, wrong usage.
    """
    devices = input_device or [None]
    if input is not None and input_device:
        raise typer.BadParameter("--input and --input-device exclude each other: the sound comes from one of them")
    headless = raw_format(raw, rate, channels)
    if input is None and (headless is not None or track is not None):
        raise typer.BadParameter("--raw and --track are about a recording: name it with --input, or - for a pipe")
    if len(devices) > 1 and save_audio is not None:
        raise typer.BadParameter("--save-audio keeps the sound of one --input-device, not of several")
    refuse_overwriting(output, [] if input is None else [input])
    words = read_hotwords(hotword, hotwords)
    writing = read_writing(numbers, plain, spoken_punctuation, replacements)
    with Signals() as signals, ExitStack() as resources:
        view = resources.enter_context(_open_view(format))
        from asr.audio.microphone import Microphone
        from asr.audio.playback import Playback
        from asr.audio.recording import Recorder, check_new
        from asr.cli.speakers import InTurns, Labelled

        if save_audio is not None:
            check_new(save_audio)
        notes = None if output is None else resources.enter_context(_open_notes(output))
        shown = Labelled(view) if len(devices) > 1 and not isinstance(view, _PlainView) else view
        if notes is not None:
            shown = _Noted(shown, notes)
        if len(devices) > 1:
            shown = InTurns(shown)
        sources: list[Playback] | list[Microphone]
        if input is not None:
            sources = [Playback(input, realtime, track, headless)]
        else:
            resources.enter_context(quiet_libraries())
            sources = [Microphone(name, warn=shown.warn) for name in devices]
        source = sources[0]
        from asr.recognition.endpoint import EndpointRules
        from asr.recognition.options import StreamOptions
        from asr.recognition.session import listen  # slow to import: after what can be wrong
        from asr.recognition.side_by_side import Sources, listen_side_by_side

        recognizer = None if server is not None else load_recognizer(model, device, threads, precision)
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
        for opened in sources:
            resources.enter_context(opened)
        recorder = None if save_audio is None else resources.enter_context(Recorder(save_audio, source.sample_rate))
        streams = [
            _open_remote(server, token) if recognizer is None else recognizer.stream(options, shown.tell)
            for _ in sources
        ]
        signals.finish(Sources(sources), *streams)
        names = " and ".join(f"{each.name} at {each.sample_rate} Hz" for each in sources)
        view.begin(
            " + ".join(each.name for each in sources),
            "" if input is not None else f"listening to {names}: speak; Ctrl-C ends",
        )
        if len(sources) > 1:
            heard = listen_side_by_side(sources, streams, shown)
        else:
            heard = listen(source, streams[0], shown, recorder)
        if isinstance(source, Playback) and source.warning:
            view.tell(source.warning)
    for listened in sources:
        summarise(listened.statistics)
    if isinstance(source, Playback) and not heard:
        amount = f"no words heard in {streams[0].seconds:.1f} s" if streams[0].seconds else "holds no sound (0 s long)"
        raise AsrError(f"{source.name}: {amount}")


def _open_remote(server: str, token: str | None) -> RemoteStream:
    try:
        from asr.serve.client import RemoteStream
    except ImportError as error:
        raise AsrError(f"{error.name} is missing: pip install 'asr[serve]'") from error
    return RemoteStream(server, token)


def _open_notes(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise AsrError(f"cannot write {path}: {error.strerror}") from error


class _Noted:
    """A view that first appends each final to a text file, on the disk at once."""

    def __init__(self, view: _PlainView | LiveDisplay | Labelled, notes: TextIO) -> None:
        self._view, self._notes = view, notes
        self.progress, self.tell, self.warn = view.progress, view.tell, view.warn

    def event(self, event: Event, *channel: int) -> None:
        from asr.events import Final
        from asr.formats.writers import channel_prefix

        if isinstance(event, Final):
            try:
                print(channel_prefix(*channel or (None,)) + event.text, file=self._notes, flush=True)
            except OSError as error:
                self.tell(f"cannot write {self._notes.name}: {error.strerror}")
        self._view.event(event, *channel)


class _PlainView:
    """Events to standard output in one of the formats, troubles to standard error."""

    def __init__(self, format: str) -> None:
        self._format = format
        self._writer: Writer | None = None

    def __enter__(self) -> _PlainView:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.end()
            self._writer.close()

    def begin(self, name: str, line: str) -> None:
        from asr.formats import open_writer

        self._writer = open_writer(self._format, sys.stdout, 1)
        self._writer.begin(name)
        if line:
            tell(line)

    def event(self, event: Event, channel: int | None = None) -> None:
        self._writer.event(event, channel)

    def progress(self, level: float, lag: float, seconds: float, peak: float) -> None:
        """Nothing: only the display shows it."""

    def warn(self, line: str) -> None:
        tell(line)

    tell = warn


@contextmanager
def _open_view(format: LiveFormat) -> Iterator[_PlainView | LiveDisplay]:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    if format is LiveFormat.auto and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        from rich.console import Console

        console = Console(markup=False, highlight=False, emoji=False)
        if not console.legacy_windows:
            from asr.cli.display import LiveDisplay
            from asr.cli.region import Region

            with Region(console) as region:
                display = LiveDisplay(region)
                display.begin("", "loading")
                yield display
            return
    with _PlainView("txt" if format is LiveFormat.auto else format.value) as view:
        yield view

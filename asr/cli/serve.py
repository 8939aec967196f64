"""`asr serve`: the recogniser for programs and browsers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    UnheardMs,
    Vad,
    load_recognizer,
    read_hotwords,
    read_writing,
)
from asr.cli.tell import tell
from asr.errors import AsrError

if TYPE_CHECKING:
    from asr.serve.server import Server

WHO = "Who may come in"
HOW_MUCH = "How much is taken"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def serve(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to serve; 0.0.0.0: all, which needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0: any that is free.")] = 8080,
    wyoming_port: Annotated[
        int | None,
        typer.Option(
            "--wyoming-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Speak Wyoming there, for Home Assistant (10300 is usual). It knows no token: for networks you trust.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TEXT", envvar="ASR_TOKEN", help="What clients must give.", rich_help_panel=WHO
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="A site whose pages may come in, besides the server's own; * for all.",
            rich_help_panel=WHO,
        ),
    ] = None,
    certfile: Annotated[
        Path | None,
        typer.Option(
            "--certfile",
            metavar="FILE",
            help="Certificate (PEM) for TLS, which browsers want for a microphone that is not on this machine.",
            rich_help_panel=WHO,
        ),
    ] = None,
    keyfile: Annotated[
        Path | None,
        typer.Option("--keyfile", metavar="FILE", help="Its key, if not in the same file.", rich_help_panel=WHO),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(
            "--streams",
            metavar="N",
            min=1,
            max=1024,
            help="Streams at a time; more are refused. Default: as many as this machine has room for, measured at "
            "the start.",
            rich_help_panel=HOW_MUCH,
        ),
    ] = None,
    uploads: Annotated[
        int, typer.Option("--uploads", min=1, max=64, help="Recordings at a time.", rich_help_panel=HOW_MUCH)
    ] = 2,
    upload_mb: Annotated[
        int, typer.Option("--upload-mb", min=1, max=4096, help="MiB of a recording.", rich_help_panel=HOW_MUCH)
    ] = 64,
    idle_s: Annotated[
        float,
        typer.Option(
            "--idle-s", metavar="SECONDS", min=1, help="Silence of a client that ends it.", rich_help_panel=HOW_MUCH
        ),
    ] = 30,
    model: Model = MODEL,
    chunk_ms: ChunkMs = LIVE.chunk_ms,
    look_ahead_ms: LookAheadMs = LIVE.look_ahead_ms,
    second_pass: SecondPass = Switch.on,
    beams: Beams = LIVE.beams,
    partials: Annotated[
        Partials,
        typer.Option("--partials", help="Words while they are said, as of asr live.", rich_help_panel=SPEED),
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
    device: Device = DEVICE,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="N", min=1, max=1024, help="That decode. Default: one a core."),
    ] = None,
    precision: Products = Precision.auto,
) -> None:
    """Recognise for other programs and for browsers: a page of captions, and the protocols of OpenAI, Deepgram, vosk,
    sherpa-onnx and Wyoming.

    $ asr serve
    $ asr serve --host 0.0.0.0 --token SECRET --certfile server.pem

    Sound and words are neither written to the disk nor logged. Ctrl-C or SIGTERM finishes what is being said, sends it,
    and ends. Exit status: 0 ended so; 2 wrong usage, or an address that cannot be served.
    """
    if host not in LOOPBACK and not token:
        raise typer.BadParameter(f"--host {host} is open to others: give a --token, or set ASR_TOKEN")
    if keyfile is not None and certfile is None:
        raise typer.BadParameter("--keyfile without --certfile")
    for path in (certfile, keyfile):
        if path is not None and not path.is_file():
            raise typer.BadParameter(f"{path}: no such file")
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError as error:
        raise AsrError(f"{error.name} is missing: pip install 'asr[serve]'") from error
    from asr.recognition.endpoint import EndpointRules
    from asr.recognition.options import StreamOptions
    from asr.serve.limits import Limits
    from asr.serve.server import Place, Server

    writing = read_writing(numbers, plain, spoken_punctuation, replacements)
    count = threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    options = StreamOptions(
        chunk_ms=chunk_ms,
        look_ahead_ms=look_ahead_ms,
        second_pass=second_pass is Switch.on,
        beams=beams,
        partials=partials.value,
        endpoint=EndpointRules(pause_ms / 1000, unheard_ms / 1000, longest_s),
        vad=vad,
        hotwords=read_hotwords(hotword, hotwords),
        writing=writing,
    )
    limits = Limits(streams=streams or 0, uploads=uploads, upload_bytes=upload_mb << 20, idle=idle_s)
    place = Place(host, port, wyoming_port, token or None, tuple(origin or ()), certfile, keyfile)
    Server(load_recognizer(model, device, 1, precision), place, limits, options, count, model, _greet).run()


def _greet(server: Server) -> None:
    place, ports = server.place, server.ports
    host = f"[{place.host}]" if ":" in place.host else place.host
    scheme = "http" if place.certificate is None else "https"
    most = server.service.limits.streams
    tell(f"serving {scheme}://{host}:{ports[0]}/ with room for {most} stream{'s' * (most > 1)}; Ctrl-C ends")
    if len(ports) > 1:
        tell(f"serving Wyoming at tcp://{host}:{ports[1]}")

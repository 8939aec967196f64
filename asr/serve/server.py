"""The process around the application: sockets, signals, and how many streams it has room for."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from asr.errors import AsrError
from asr.nn.speech_model import SpeechModel
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.serve.app import build
from asr.serve.engine import Engine
from asr.serve.limits import Limits
from asr.serve.service import Service
from asr.serve.wyoming import LONGEST_LINE, serve_wyoming

LARGEST_HEADER = 1 << 14  # bytes
TRIAL = 4.0  # s of sound by which the machine is measured
SPEECH = 3.0  # times as long as its encoding does speech take with all else: partials, finals, the gate
SHARE = 0.8  # of the threads' time that streams may take


@dataclass(frozen=True)
class Place:
    """Where and for whom a server is.

    Attributes:
        host, port: of the address; port 0: any that is free.
        wyoming: port of the Wyoming protocol, which knows no token; None: it is not spoken.
        token: see `Guard`.
        origins: see `Guard`.
        certificate, key: files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    wyoming: int | None = None
    token: str | None = None
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None


class Server(uvicorn.Server):
    """Serves until a signal comes; then finishes what is being said.

    Args:
        recognizer: what recognises.
        place: where.
        limits: see `Limits`; `streams` of 0: as many as the machine has turned out to have room for.
        options: how streams are decoded.
        threads: that decode.
        model: name of the model.
        ready: is told the addresses (port of the page, of Wyoming) when clients can come.

    Attributes:
        service: see there.

    Raises:
        AsrError: an address that cannot be served, a certificate that cannot be read.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        place: Place,
        limits: Limits,
        options: StreamOptions,
        threads: int,
        model: str = "en",
        ready: Callable[[Server], None] | None = None,
    ) -> None:
        self.place, self._ready = place, ready
        self._sockets = [_listen(place.host, place.port)]
        if place.wyoming is not None:
            self._sockets.append(_listen(place.host, place.wyoming))
        engine = Engine(recognizer, threads)
        if limits.streams == 0:
            limits = replace(limits, streams=room(recognizer.model, options, threads))
        self.service = Service(engine, limits, options, model)
        try:
            super().__init__(
                uvicorn.Config(
                    build(self.service, place.token, place.origins),
                    http=partial(_Impatient, limits.opening),
                    ws="websockets-sansio",
                    ws_max_size=limits.message_bytes,
                    ws_ping_interval=None,  # TCP tells who has vanished, also while a client reads nothing
                    ws_per_message_deflate=False,
                    lifespan="off",
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    timeout_graceful_shutdown=1,
                    h11_max_incomplete_event_size=LARGEST_HEADER,
                    ssl_certfile=place.certificate,
                    ssl_keyfile=place.key,
                )
            )
            self.config.load()
        except (OSError, ValueError) as error:
            raise AsrError(f"the certificate cannot be used: {error}") from error

    @property
    def ports(self) -> list[int]:
        """Of the page, and of Wyoming."""
        return [each.getsockname()[1] for each in self._sockets]

    def run(self) -> None:
        """Until SIGINT or SIGTERM."""
        asyncio.run(self.serve_all())

    async def serve_all(self) -> None:
        """The same, inside of an event loop; ends after `should_exit` has been set, too."""
        wyoming = None
        if self.place.wyoming is not None:
            talk = partial(serve_wyoming, self.service)
            wyoming = await asyncio.start_server(talk, sock=self._sockets[1], limit=LONGEST_LINE)
        try:
            await self.serve(self._sockets[:1])
        finally:
            if wyoming is not None:
                wyoming.close()
            self.service.engine.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None:
            self._ready(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.service.finish()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A first signal ends in peace, a second one at once."""

        def stop() -> None:
            if self.should_exit:
                os._exit(130)
            self.should_exit = True

        loop, handled = asyncio.get_running_loop(), []
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, stop)
                handled.append(number)
            except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
                pass
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


class _Impatient(H11Protocol):
    """HTTP that does not wait for ever for a first request."""

    def __init__(self, patience: float, *args: object, **named: object) -> None:
        super().__init__(*args, **named)
        self._patience = patience

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(self._patience, self._look)

    def _look(self) -> None:
        if self.cycle is None and self.transport.get_protocol() is self:
            self.transport.abort()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket whose connections end within seconds after their client has vanished or stopped reading."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            seconds = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}
            for option, value in seconds.items():
                if hasattr(socket, option):
                    listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise AsrError(f"cannot serve {host}:{port}: {error.strerror or error}; choose another --port") from error
    listener.setblocking(False)
    return listener


@torch.inference_mode()
def room(model: SpeechModel, options: StreamOptions, threads: int) -> int:
    """How many streams in real time this machine has room for, by how long its encoder takes."""
    torch.set_num_threads(1)
    sound = torch.zeros(1, round(TRIAL / model.position_seconds) * model.position_samples)
    chunk, look_ahead = options.positions(model)
    took = []
    for _ in range(2):  # the first time, things are loaded
        begun = time.perf_counter()
        model(sound, model.start(chunk=chunk, look_ahead=look_ahead), final=True)
        took.append(time.perf_counter() - begun)
    return max(1, int(SHARE * threads / (SPEECH * took[-1] / TRIAL)))

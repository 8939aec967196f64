"""Wyoming over TCP, as Home Assistant speaks it: a line of JSON, then as much data and payload as it states."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Any

import anyio

from asr.errors import AsrError
from asr.serve.codings import Samples
from asr.serve.limits import BadMessage, Refusal, Silent
from asr.serve.service import Service
from asr.serve.session import Segment, Session
from asr.serve.sockets import LOG, Gone, number, parse
from asr.writing.tokens import join

LONGEST_LINE = 1 << 16  # bytes
LONGEST_PART = 1 << 20  # bytes of an event's data, or of its payload
_CODINGS = {2: "s16le", 4: "s32le"}  # by the bytes of a sample


async def serve_wyoming(service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, over which any number of utterances may come; made for `asyncio.start_server`."""
    wire = _Wire(service, reader, writer)
    try:
        with service.connection():
            await _Client(wire, service).run()
    except (Gone, OSError):
        pass
    except AsrError as error:
        if isinstance(error, Refusal):
            service.refused(error)
        with suppress(Gone):
            await wire.send("error", {"text": str(error), "code": type(error).__name__})
    except Exception:
        LOG.exception("a connection of Wyoming failed")
    finally:
        writer.close()
        with suppress(OSError, TimeoutError), anyio.fail_after(service.limits.write):
            await writer.wait_closed()
        writer.transport.abort()


class _Wire:
    """Events of a connection."""

    def __init__(self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._limits, self._reader, self._writer = service.limits, reader, writer

    async def receive(self) -> tuple[str, dict[str, Any], bytes]:
        """Type, data and payload of the next event.

        Raises:
            Gone: there is none.
            Refusal: it is none, too large, or does not come.
        """
        try:
            with anyio.fail_after(self._limits.idle):
                return await self._receive()
        except TimeoutError:
            raise Silent(f"nothing came for {self._limits.idle:.0f} s") from None
        except (asyncio.IncompleteReadError, OSError):
            raise Gone from None

    async def _receive(self) -> tuple[str, dict[str, Any], bytes]:
        try:
            line = await self._reader.readline()
        except ValueError:
            raise BadMessage("a line that is too long") from None
        if not line.endswith(b"\n"):
            raise Gone
        event = parse(line)
        data = event.get("data") or {}
        sizes = [number(event.get(name) or 0, 0, LONGEST_PART, name) for name in ("data_length", "payload_length")]
        more, payload = [await self._reader.readexactly(int(size)) for size in sizes]
        if not isinstance(data, dict) or not isinstance(kind := event.get("type"), str):
            raise BadMessage("an event without a type, or with data that is no object")
        return kind, {**data, **(parse(more) if more else {})}, payload

    async def send(self, kind: str, data: dict[str, Any]) -> None:
        """An event without a payload.

        Raises:
            Gone: the connection has ended, or is not read.
        """
        body = json.dumps(data, ensure_ascii=False).encode()
        head = json.dumps({"type": kind, "version": "1.10.0", "data_length": len(body)}).encode()
        self._writer.write(head + b"\n" + body)
        try:
            with anyio.fail_after(self._limits.write):
                await self._writer.drain()
        except (TimeoutError, OSError):
            raise Gone from None


class _Client:
    def __init__(self, wire: _Wire, service: Service) -> None:
        self._wire, self._service = wire, service
        self._streaming: bool = False

    async def run(self) -> None:
        while True:
            kind, data, _ = await self._wire.receive()
            if kind == "describe":
                await self._wire.send("info", _info(self._service.model))
            elif kind == "audio-start":
                await self._utterance(data)
            elif kind in ("audio-chunk", "audio-stop"):
                raise BadMessage(f"{kind} before audio-start")

    async def _utterance(self, form: dict[str, Any]) -> None:
        """From audio-start to the transcript."""
        samples, rate = _samples(form)
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(self._service.session(partials=False))
            closing = asyncio.ensure_future(self._service.closing.wait())
            stack.callback(closing.cancel)
            while not closing.done():
                receiving = asyncio.ensure_future(self._wire.receive())
                stack.callback(receiving.cancel)
                await asyncio.wait([receiving, closing], return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    break
                kind, _, payload = receiving.result()
                if kind == "audio-chunk":
                    session.put(samples(payload), rate)
                elif kind == "audio-stop":
                    break
            session.end()
            await self._transcript(session)

    async def _transcript(self, session: Session) -> None:
        said = [segment.text async for segment in session if isinstance(segment, Segment) and segment.final]
        text = join(said)
        await self._wire.send("transcript-start", {"language": "en"})
        await self._wire.send("transcript-chunk", {"text": text})
        await self._wire.send("transcript", {"text": text, "language": "en"})
        await self._wire.send("transcript-stop", {})


def _samples(form: dict[str, Any]) -> tuple[Samples, float]:
    width = number(form.get("width", 2), 1, 4, "width")
    if width not in _CODINGS:
        raise BadMessage(f"samples of {width:g} bytes: send 2 or 4")
    channels = int(number(form.get("channels", 1), 1, 16, "channels"))
    return Samples(_CODINGS[width], channels), number(form.get("rate", 16000), 1000, 768_000, "rate")


def _info(model: str) -> dict[str, Any]:
    about = {"attribution": {"name": "asr", "url": ""}, "installed": True, "version": version("asr")}
    models = [{"name": model, "description": f"The model {model}", "languages": ["en"], **about}]
    program = {"name": "asr", "description": "Streaming speech recognition", "models": models, **about}
    others = ("tts", "handle", "intent", "wake", "mic", "snd")
    return {"asr": [program | {"supports_transcript_streaming": True}]} | {name: [] for name in others}

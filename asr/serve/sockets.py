"""Websockets as protocols see them: messages that come in time or not at all, and errors that close with a reason."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from asr.errors import AsrError, ConfigError
from asr.search.hotwords import SAFE, Hotword
from asr.serve.limits import BadMessage, Limits, Refusal, Silent
from asr.serve.service import Service

LOG = logging.getLogger("asr.serve")
LONGEST_REASON = 123  # bytes of a close frame's text (RFC 6455, section 5.5)
MOST_WISHED, LONGEST_WISH = 100, 100  # hotwords of a client, and letters of one
GOING_AWAY = 1012  # close code: the server restarts


class Gone(Exception):
    """The client is not there any more, or does not read."""


class Talk:
    """One connection.

    Attributes:
        query: the parameters of its address; of those that come twice, the last, and all by `getlist`.
    """

    def __init__(self, socket: WebSocket, limits: Limits) -> None:
        self.socket, self.query = socket, socket.query_params
        self._limits = limits

    async def receive(self, patience: float | None = None) -> str | bytes:
        """The next message.

        Args:
            patience: seconds until it must be there; default: those of an idle connection; infinity: for ever.

        Raises:
            Gone: the connection has ended.
            Silent: nothing came.
        """
        patience = self._limits.idle if patience is None else patience
        try:
            with anyio.fail_after(patience):
                message = await self.socket.receive()
        except TimeoutError:
            raise Silent(f"nothing came for {patience:.0f} s") from None
        if message["type"] == "websocket.disconnect":
            raise Gone
        text = message.get("text")
        return message.get("bytes") or b"" if text is None else text

    async def send(self, message: str | dict[str, Any]) -> None:
        """A text, or JSON.

        Raises:
            Gone: the connection has ended, or what was sent before is not read.
        """
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        try:
            with anyio.fail_after(self._limits.write):
                await self.socket.send_text(text)
        except (TimeoutError, WebSocketDisconnect, RuntimeError, OSError):
            raise Gone from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Ends it; nothing if it has ended."""
        reason = reason.encode()[:LONGEST_REASON].decode(errors="ignore")
        with suppress(TimeoutError, WebSocketDisconnect, RuntimeError, OSError), anyio.fail_after(self._limits.write):
            await self.socket.close(code, reason)


def parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadMessage: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("a message that is no JSON") from None
    if not isinstance(value, dict):
        raise BadMessage("a message that is no JSON object")
    return value


def number(value: object, least: float, most: float, name: str) -> float:
    """A number of a message or a query, whatever it is written as.

    Raises:
        BadMessage: it is none, or outside of its bounds.
    """
    try:
        found = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else float("nan")
    except (ValueError, OverflowError):
        found = float("nan")
    if not least <= found <= most:
        raise BadMessage(f"{name} is {str(value)[:40]!r}: give a number from {least:g} to {most:g}")
    return found


def hotwords(values: object, name: str) -> list[Hotword]:
    """Words and phrases that a client expects: strings, each alone or, as Deepgram writes it, with `:WEIGHT`.

    Raises:
        BadMessage: they are none, or too many.
    """
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadMessage(f"{name}: give a list of words or phrases")
    if len(values) > MOST_WISHED or any(len(value) > LONGEST_WISH for value in values):
        raise BadMessage(f"{name}: give at most {MOST_WISHED}, of at most {LONGEST_WISH} letters")
    found = []
    for value in values:
        text, colon, weight = value.rpartition(":")
        factor = number(weight, 0, SAFE, f"the weight of {name}") if colon else 1.0
        try:
            found.append(Hotword(" ".join((text if colon else value).split()), weight=factor))
        except ConfigError as error:
            raise BadMessage(str(error)) from None
    return found


async def exchange(reading: Coroutine[Any, Any, None], writing: Coroutine[Any, Any, None]) -> None:
    """Runs what never stops reading and what writes until all is written; the end of either is that of both.

    Raises:
        Exception: what either of them raised.
    """
    tasks = [asyncio.ensure_future(reading), asyncio.ensure_future(writing)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for result in ended:
        if isinstance(result, Exception):
            raise result


def endpoint(
    service: Service,
    protocol: Callable[[Talk, Service], Awaitable[None]],
    *,
    check: Callable[[Talk], None] | None = None,
    reason: Callable[[Exception], str] = str,
    listens: bool = True,
) -> Callable[[WebSocket], Awaitable[None]]:
    """The handler of a websocket address.

    Args:
        service: who is served by it.
        protocol: talks until all is said; the connection is closed after it.
        check: raises a Refusal of an address with impossible parameters.
        reason: how the protocol words an error in the close frame.
        listens: it opens a stream at once: without room for it, the handshake is refused.
    """

    async def handle(socket: WebSocket) -> None:
        talk = Talk(socket, service.limits)
        try:
            if listens:
                service.refuse_if_full()
            if check is not None:
                check(talk)
        except Refusal as refusal:
            service.refused(refusal)
            return await socket.send_denial_response(denial(refusal))
        offered = socket.scope["subprotocols"]
        await socket.accept(subprotocol=offered[0] if offered else None)
        try:
            await protocol(talk, service)
        except Gone:
            pass
        except AsrError as error:
            code = 1008
            if isinstance(error, Refusal):
                service.refused(error)
                code = error.close_code
            await talk.close(code, reason(error))
        except Exception:
            LOG.exception("a connection to %s failed", socket.url.path)
            await talk.close(1011, "something failed in the server")
        else:
            await talk.close(GOING_AWAY if service.ending else 1000)
        return None

    return handle


def denial(refusal: Refusal) -> JSONResponse:
    """A refusal as OpenAI words errors, which says to others, too, what is wrong."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.kind}
    headers = {"Retry-After": "2"} if refusal.status == 503 else None
    return JSONResponse({"error": error}, refusal.status, headers)

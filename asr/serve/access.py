"""Who may come in: a token where others than this machine are served, and no pages of other sites."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from asr.serve.limits import Full, Refusal
from asr.serve.service import Service
from asr.serve.sockets import denial

OPEN = ("/", "/watch", "/health")  # the page, which holds nothing, and a sign of life
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SCHEMES = ("bearer", "token")  # of the header `Authorization`, and subprotocols that Deepgram's browsers offer
_OPENAI = "openai-insecure-api-key."  # begins the subprotocol that OpenAI's browsers offer

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class NoEntry(Refusal):
    """The token is missing or wrong."""

    status, kind = 401, "token"


class Foreign(Refusal):
    """A page of another site, or another name for this machine."""

    status, kind = 403, "origin"


class Guard:
    """Lets requests and websockets through to an application, or answers them.

    Args:
        app: what is guarded.
        service: counts connections and refusals.
        token: that is asked for; None: only this machine is served, and only by its own names, so that no page can
            come in under a name of its own (DNS rebinding).
        origins: of other sites whose pages may come in; `*`: all.
    """

    def __init__(self, app: App, service: Service, token: str | None, origins: tuple[str, ...] = ()) -> None:
        self._app, self._service, self._token, self._origins = app, service, token, origins

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        try:
            self._check(scope)
            with self._service.connection():
                return await self._app(scope, receive, send)
        except (NoEntry, Foreign, Full) as refusal:
            self._service.refused(refusal)
            await _deny(denial(refusal), scope, receive, send)
        return None

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._token is None and urlsplit(f"//{host}").hostname not in _LOOPBACK:
            raise Foreign("without a token this machine is served by the names localhost, 127.0.0.1 and [::1]")
        origin = headers.get("origin")
        own = origin is None or urlsplit(origin).netloc.lower() == host.lower()
        if not own and "*" not in self._origins and origin not in self._origins:
            raise Foreign(f"pages of {origin[:100]} may not come in: name it with --origin")
        if self._token is None or (scope["path"] in OPEN and scope["type"] == "http"):
            return
        wanted = self._token.encode()
        if not any(hmac.compare_digest(offer.encode(errors="replace"), wanted) for offer in _offers(scope, headers)):
            raise NoEntry("a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN")


def _offers(scope: Scope, headers: Headers) -> list[str]:
    """Everything in a request that may be the token."""
    offers = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    scheme, _, value = headers.get("authorization", "").partition(" ")
    offers += [value.strip()] if scheme.lower() in _SCHEMES else []
    protocols = scope.get("subprotocols", [])
    offers += [name.removeprefix(_OPENAI) for name in protocols if name.startswith(_OPENAI)]
    return offers + (protocols[1:2] if protocols and protocols[0].lower() in _SCHEMES else [])


async def _deny(answer: JSONResponse, scope: Scope, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        return await answer(scope, receive, send)
    start = {"status": answer.status_code, "headers": answer.raw_headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": answer.body})
    return None

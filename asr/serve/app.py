"""The application: which protocol is spoken at which address."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from asr.serve import deepgram
from asr.serve.access import App, Guard
from asr.serve.captions import talk_captions, talk_watch
from asr.serve.openai_files import Files
from asr.serve.openai_realtime import talk_realtime
from asr.serve.service import Service
from asr.serve.sherpa import talk_sherpa
from asr.serve.sockets import Talk, endpoint
from asr.serve.vosk import talk_vosk

PAGE = Path(__file__).with_name("page.html")
_POLICY = (  # the page needs nothing from anywhere else
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; connect-src 'self' ws: wss:; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def build(service: Service, token: str | None = None, origins: tuple[str, ...] = ()) -> App:
    """The application of a service; `token` and `origins` as of `Guard`."""

    async def page(request: Request) -> Response:
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers=headers)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ending" if service.ending else "ok"}, 503 if service.ending else 200)

    async def metrics(request: Request) -> Response:
        lines = [f"{name} {value:.6g}" for name, value in service.measures().items()]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")

    files = Files(service)
    routes = [
        Route("/", page),
        Route("/watch", page),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/v1/models", files.models),
        Route("/v1/models/{model}", files.models),
        Route("/v1/audio/transcriptions", files.transcriptions, methods=["POST"]),
        WebSocketRoute("/v1/captions", endpoint(service, talk_captions)),
        WebSocketRoute("/v1/watch", endpoint(service, talk_watch, listens=False)),
        WebSocketRoute("/v1/realtime", endpoint(service, talk_realtime)),
        WebSocketRoute(
            "/v1/listen", endpoint(service, deepgram.talk_deepgram, check=deepgram.check, reason=deepgram.reason)
        ),
        WebSocketRoute("/vosk", endpoint(service, talk_vosk)),
        WebSocketRoute("/sherpa", endpoint(service, talk_sherpa)),
        WebSocketRoute("/", endpoint(service, _talk_at_the_root)),
    ]
    app = Guard(Starlette(routes=routes), service, token, origins)
    if not origins:
        return app
    return CORSMiddleware(app, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"])


async def _talk_at_the_root(talk: Talk, service: Service) -> None:
    """vosk's and sherpa's clients know no path: what comes first tells them apart."""
    first = await talk.receive(service.limits.opening)
    vosk = first.startswith(b"RIFF") if isinstance(first, bytes) else first != "Done"
    await (talk_vosk if vosk else talk_sherpa)(talk, service, first)

"""sherpa-onnx's streaming websocket: float32 in, the open segment out, `Done` and `Done!` at the end."""

from __future__ import annotations

import json

from asr.serve.codings import Samples
from asr.serve.limits import BadMessage
from asr.serve.service import Service
from asr.serve.session import Segment, Session
from asr.serve.sockets import Talk, exchange

RATE = 16000  # hertz, as its own server's models have


async def talk_sherpa(talk: Talk, service: Service, first: str | bytes | None = None) -> None:
    """Until the client says `Done`; `first`: its first message, if that has been read."""
    async with service.session() as session:
        await exchange(_read(talk, session, first), _write(talk, session))


async def _read(talk: Talk, session: Session, message: str | bytes | None) -> None:
    samples, done = Samples("f32le"), False
    message = await talk.receive() if message is None else message
    while True:
        if not done and isinstance(message, bytes):
            session.put(samples(message), RATE)
        elif not done and message == "Done":
            done = True
            session.end()
        elif not done:
            raise BadMessage("neither sound nor Done")
        message = await talk.receive(float("inf") if done else None)


async def _write(talk: Talk, session: Session) -> None:
    async for said in session:
        if isinstance(said, Segment):
            await talk.send(json.dumps(_message(said), ensure_ascii=False))
    await talk.send("Done!")


def _message(said: Segment) -> dict[str, object]:
    return {
        "text": said.text,
        "tokens": [word.text for word in said.words],
        "timestamps": [round(word.start - said.start, 3) for word in said.words],
        "ys_probs": [],
        "lm_probs": [],
        "context_scores": [],
        "segment": said.number,
        "words": [],
        "start_time": round(said.start, 3),
        "is_final": said.final,
        "is_eof": said.final and said.reason == "end",
    }

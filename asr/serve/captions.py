"""The protocol of the caption page and of `asr live --server`, which survives lost connections; and of those who watch.

A client sends JSON `{"type": "start", "rate": hertz, "segment": n, "at": seconds, "share": bool}` first, then samples
(int16, little-endian, mono) in binary messages, `{"type": "share", "on": bool}` and `{"type": "end"}`. It gets a
message for each segment as it is known (`number`, `settled`, `tentative`, times, `final`, `words`). After a lost
connection it sends again all sound since the end of the last final that it has got, and names that final's number plus
one as `segment`, and where that sound begins as `at`: so no word is lost or doubled, whatever has become of the server.
"""

from __future__ import annotations

import uuid
from typing import Any

from asr.serve.codings import Samples
from asr.serve.limits import BadMessage
from asr.serve.service import Service
from asr.serve.session import Segment, Session
from asr.serve.sockets import Talk, exchange, number, parse

SPEAKER_LETTERS = 64  # at most, of the name by which a client goes on after a lost connection


async def talk_captions(talk: Talk, service: Service) -> None:
    """Until the client says `end`."""
    start = parse(await talk.receive(service.limits.opening))
    if start.get("type") != "start":
        raise BadMessage("say start first")
    rate = number(start.get("rate"), 1000, 768_000, "rate")
    first = int(number(start.get("segment", 0), 0, 2**31, "segment"))
    at = number(start.get("at", 0), 0, 2**31, "at")
    async with service.session(number=first, at=at) as session:
        client = _Client(talk, session, service, rate, start)
        await talk.send({"type": "ready", "model": service.model})
        await exchange(client.read(), client.write())


async def talk_watch(talk: Talk, service: Service) -> None:
    """What is shared, until the client leaves or the server ends."""

    async def read() -> None:
        while True:
            await talk.receive(float("inf"))

    async def write() -> None:
        async for message in service.board.watch():
            await talk.send(message)

    async def until_closing() -> None:
        await exchange(write(), service.closing.wait())

    await exchange(read(), until_closing())


class _Client:
    def __init__(self, talk: Talk, session: Session, service: Service, rate: float, start: dict[str, Any]) -> None:
        self._talk, self._session, self._service, self._rate = talk, session, service, rate
        speaker = start.get("speaker")
        self._speaker = speaker[:SPEAKER_LETTERS] if isinstance(speaker, str) and speaker else uuid.uuid4().hex
        self._shared = start.get("share") is True

    async def read(self) -> None:
        samples, ended = Samples("s16le"), False
        while True:
            message = await self._talk.receive(float("inf") if ended else None)
            if ended:
                continue
            if isinstance(message, bytes):
                self._session.put(samples(message), self._rate)
                continue
            said = parse(message)
            if said.get("type") == "end":
                ended = True
                self._session.end()
            elif said.get("type") == "share":
                self._shared = said.get("on") is True
            else:
                raise BadMessage("neither sound nor share nor end")

    async def write(self) -> None:
        async for said in self._session:
            if isinstance(said, Segment):
                message = as_message(said)
                if self._shared:
                    self._service.board.show(self._speaker, message)
                await self._talk.send(message)


def as_message(said: Segment) -> dict[str, Any]:
    """A segment as JSON, seconds to the millisecond."""
    words = [
        {"text": word.text, "start": round(word.start, 3), "end": round(word.end, 3)}
        | {"confidence": round(word.confidence, 3)}
        for word in said.words
    ]
    message = {"type": "segment", "number": said.number, "settled": said.settled, "tentative": said.tentative}
    message |= {"start": round(said.start, 3), "end": round(said.end, 3), "final": said.final}
    return message | ({"words": words, "reason": said.reason} if said.final else {})

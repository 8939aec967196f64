"""vosk-server's websocket (alphacep/vosk-server, websocket/asr_server.py): one reply to each message of sound."""

from __future__ import annotations

import json
from typing import Any

from asr.serve.codings import Samples
from asr.serve.limits import BadMessage
from asr.serve.service import Service
from asr.serve.session import Segment, Session
from asr.serve.sockets import Talk, exchange, hotwords, number, parse
from asr.writing.tokens import join

RATE = 8000  # hertz, where the client does not say
LONGEST_NOTE = 10_000  # characters of a message that is no sound


async def talk_vosk(talk: Talk, service: Service, first: str | bytes | None = None) -> None:
    """Until the client says `eof`; `first`: its first message, if that has been read."""
    async with service.session() as session:
        client = _Client(talk, session)
        await exchange(client.converse(first), service.closing.wait())
        await client.conclude()


class _Client:
    def __init__(self, talk: Talk, session: Session) -> None:
        self._talk, self._session = talk, session
        self._rate, self._words, self._alternatives = float(RATE), False, False
        self._samples = Samples("s16le")
        self._finals: list[Segment] = []
        self._partial = ""

    async def converse(self, message: str | bytes | None) -> None:
        """A reply to each message of sound, until the last."""
        message = await self._talk.receive() if message is None else message
        while True:
            if isinstance(message, bytes):
                await self._session.put(self._samples(message), self._rate)
                self._collect()
                await self._talk.send(self._result([self._finals.pop(0)]) if self._finals else self._said())
            else:
                said = parse(message) if len(message) <= LONGEST_NOTE else {}
                if "eof" in said:
                    return
                if not isinstance(config := said.get("config"), dict):
                    raise BadMessage("neither sound nor config nor eof")
                self._configure(config)
            message = await self._talk.receive()

    async def conclude(self) -> None:
        """The last reply."""
        self._session.end()
        async for said in self._session:
            self._keep(said)
        await self._talk.send(self._result(self._finals))

    def _configure(self, config: dict[str, Any]) -> None:
        if "sample_rate" in config:
            self._rate = number(config["sample_rate"], 1000, 768_000, "sample_rate")
        if "phrase_list" in config:
            self._session.listen_for(hotwords(config["phrase_list"], "phrase_list"))
        self._words = bool(config.get("words", self._words))
        if "max_alternatives" in config:
            self._alternatives = number(config["max_alternatives"], 0, 1000, "max_alternatives") > 0

    def _collect(self) -> None:
        for said in self._session.take():
            self._keep(said)

    def _keep(self, said: object) -> None:
        if isinstance(said, Segment):
            self._partial = "" if said.final else said.text
            self._finals += [said] if said.final and said.text else []

    def _said(self) -> str:
        return json.dumps({"partial": self._partial}, ensure_ascii=False)

    def _result(self, finals: list[Segment]) -> str:
        text = join(final.text for final in finals)
        words = [
            {"conf": round(word.confidence, 6), "start": round(word.start, 3), "end": round(word.end, 3)}
            | {"word": word.text}
            for final in finals
            for word in final.words
        ]
        result: dict[str, Any] = {"text": text}
        if self._words and words:
            result = {"result": words, "text": text}
        if self._alternatives:
            confidence = sum(word["conf"] for word in words) / max(1, len(words))
            result = {"alternatives": [{"confidence": confidence, **result}]}
        return json.dumps(result, ensure_ascii=False)

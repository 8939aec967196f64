"""OpenAI's Realtime transcription, `/v1/realtime`: an item for each utterance, or for each commit of the client."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Any

from asr.serve.codings import Samples
from asr.serve.limits import BadMessage
from asr.serve.service import Service
from asr.serve.session import Flushed, Segment, Session
from asr.serve.sockets import Talk, exchange, hotwords, number, parse

_CODINGS = {"audio/pcm": "s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
_OLD_CODINGS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_UPDATES = ("session.update", "transcription_session.update")
LEAST_PAUSE, MOST_PAUSE = 100, 10_000  # ms of silence that a client may ask for as the end of an utterance


async def talk_realtime(talk: Talk, service: Service) -> None:
    """Until the client leaves."""
    async with service.session() as session:
        rules = service.options.endpoint
        client = _Client(talk, session, service.model, None if rules is None else rules.pause)
        await client.tell("session.created", session=client.session)
        await exchange(client.read(), client.write())


class _Client:
    """One connection. OpenAI cannot take a delta back: words are sent when they are final."""

    def __init__(self, talk: Talk, session: Session, model: str, pause: float | None) -> None:
        self._talk, self._session = talk, session
        turns = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300}
        self._audio: dict[str, Any] = {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": model},
            "noise_reduction": None,
            "turn_detection": None if pause is None else {**turns, "silence_duration_ms": round(1000 * pause)},
        }
        self._samples, self._rate = Samples("s16le"), 24000.0
        self._uncommitted = 0  # bytes
        self._item: str | None = None  # that of the open utterance
        self._before: str | None = None
        self._committed: list[str] = []  # items of commits that are not decoded yet
        self._texts: list[str] = []  # finals since the last item
        self._sent = 0  # of them
        self._turned = False  # whether an utterance has ended since the last commit

    @property
    def session(self) -> dict[str, Any]:
        """The effective configuration."""
        return {"type": "transcription", "object": "realtime.transcription_session", "audio": {"input": self._audio}}

    async def tell(self, kind: str, **fields: Any) -> None:
        """Sends an event."""
        await self._talk.send({"event_id": _name("event"), "type": kind, **fields})

    async def read(self) -> None:
        """What the client says; what is wrong with it is answered, and the session stays open."""
        while True:
            message = await self._talk.receive()
            event: dict[str, Any] = {}
            try:
                event = parse(message)
                await self._obey(event)
            except BadMessage as error:
                about = event.get("event_id")
                known = {"type": "invalid_request_error", "message": str(error), "code": error.kind, "param": None}
                await self.tell("error", error={**known, "event_id": about if isinstance(about, str) else None})

    async def _obey(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind in _UPDATES:
            session = event.get("session")
            self._update(_flat(session) if kind == _UPDATES[1] else _nested(session))
            await self.tell("session.updated" if kind == _UPDATES[0] else f"{kind}d", session=self.session)
        elif kind == "input_audio_buffer.append":
            audio = event.get("audio")
            try:
                data = base64.b64decode(audio, validate=True) if isinstance(audio, str) else b""
            except (binascii.Error, ValueError):
                raise BadMessage("audio is no base64") from None
            if not data:
                raise BadMessage("an append without audio")
            self._uncommitted += len(data)
            self._session.put(self._samples(data), self._rate)
        elif kind == "input_audio_buffer.commit":
            await self._commit()
        elif kind == "input_audio_buffer.clear":
            self._uncommitted = 0
            self._session.clear()
            await self.tell("input_audio_buffer.cleared")
        else:
            raise BadMessage(f"no event {str(kind)[:40]!r} of a transcription session")

    def _update(self, wished: dict[str, Any]) -> None:
        audio = {**self._audio, **{key: value for key, value in wished.items() if key in self._audio}}
        form = audio["format"]
        if not isinstance(form, dict) or form.get("type") not in _CODINGS:
            raise BadMessage(f"no format that is taken: choose of {', '.join(_CODINGS)}")
        rate = 24000 if form["type"] == "audio/pcm" else 8000
        rate = number(form.get("rate") or rate, 1000, 768_000, "rate")
        turns = audio["turn_detection"]
        if turns is not None:
            if not isinstance(turns, dict) or turns.get("type") not in ("server_vad", "semantic_vad"):
                raise BadMessage("no turn_detection that is known: choose of server_vad, semantic_vad, null")
            pause = turns.get("silence_duration_ms")
            if pause is not None:
                self._session.set_pause(number(pause, LEAST_PAUSE, MOST_PAUSE, "silence_duration_ms") / 1000)
        transcription = audio["transcription"]
        if isinstance(transcription, dict) and "keywords" in transcription:
            self._session.listen_for(hotwords(transcription["keywords"], "keywords"))
        if form != self._audio["format"]:
            self._samples = Samples(_CODINGS[form["type"]])
        self._audio, self._rate = audio, rate

    async def _commit(self) -> None:
        if not self._uncommitted:
            raise BadMessage("the buffer is empty: append audio before a commit")
        self._uncommitted, self._turned = 0, False
        self._session.flush()
        if self._audio["turn_detection"] is None:
            item = _name("item")
            self._committed.append(item)
            await self._add(item)

    async def write(self) -> None:
        """What is said, as items."""
        async for said in self._session:
            if isinstance(said, Flushed):
                await self._flushed()
            elif self._audio["turn_detection"] is None or self._committed:
                if said.final and said.text:
                    self._texts.append(f" {said.text}" if self._texts else said.text)
                    await self._deltas(self._committed[0] if self._committed else None)
            else:
                await self._turn(said)

    async def _flushed(self) -> None:
        """What was committed has been decoded."""
        if self._committed:
            await self._complete(self._committed.pop(0), 0.0)
        elif not self._turned:
            item = _name("item")
            await self._add(item)
            await self._complete(item, 0.0)

    async def _turn(self, said: Segment) -> None:
        """An utterance whose end is found here."""
        if self._item is None:
            self._item = _name("item")
            times = {"audio_start_ms": round(1000 * said.start), "item_id": self._item}
            await self.tell("input_audio_buffer.speech_started", **times)
        if said.final:
            item, self._item, self._uncommitted, self._turned = self._item, None, 0, True
            times = {"audio_end_ms": round(1000 * said.end), "item_id": item}
            await self.tell("input_audio_buffer.speech_stopped", **times)
            await self._add(item)
            self._texts += [said.text] if said.text else []
            await self._complete(item, said.end - said.start)

    async def _add(self, item: str) -> None:
        before, self._before = self._before, item
        await self.tell("input_audio_buffer.committed", item_id=item, previous_item_id=before)
        content = [{"type": "input_audio", "audio": None, "transcript": None}]
        added = {"id": item, "object": "realtime.item", "type": "message", "status": "completed", "role": "user"}
        await self.tell("conversation.item.added", item={**added, "content": content}, previous_item_id=before)

    async def _deltas(self, item: str | None) -> None:
        """Words that are final; those of an item that is yet to be committed wait."""
        while item is not None and self._sent < len(self._texts):
            kind, delta = "conversation.item.input_audio_transcription.delta", self._texts[self._sent]
            self._sent += 1
            await self.tell(kind, item_id=item, content_index=0, delta=delta)

    async def _complete(self, item: str, seconds: float) -> None:
        await self._deltas(item)
        text, self._texts, self._sent = "".join(self._texts), [], 0
        kind = "conversation.item.input_audio_transcription.completed"
        usage = {"type": "duration", "seconds": round(seconds, 3)}
        await self.tell(kind, item_id=item, content_index=0, transcript=text, usage=usage)


def _nested(session: object) -> dict[str, Any]:
    """The input's settings of a session."""
    audio = session.get("audio") if isinstance(session, dict) else None
    if audio is None and isinstance(session, dict):
        return {}
    wished = audio.get("input") if isinstance(audio, dict) else None
    if not isinstance(wished, dict):
        raise BadMessage("session.update without session.audio.input")
    return wished


def _flat(session: object) -> dict[str, Any]:
    """The same of the older interface."""
    if not isinstance(session, dict):
        raise BadMessage("transcription_session.update without a session")
    wished = {"turn_detection": session["turn_detection"]} if "turn_detection" in session else {}
    if "input_audio_format" in session:
        old = session["input_audio_format"]
        wished["format"] = {"type": _OLD_CODINGS.get(old) if isinstance(old, str) else None}
    if "input_audio_transcription" in session:
        wished["transcription"] = session["input_audio_transcription"]
    return wished


def _name(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:21]}"

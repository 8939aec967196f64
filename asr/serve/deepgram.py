"""Deepgram's live websocket, `/v1/listen`: results of spans of time, interim ones if asked for."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from asr.events import Word
from asr.search.hotwords import Hotword
from asr.serve.codings import RATE, Container, Samples
from asr.serve.limits import BadMessage, Silent
from asr.serve.service import Service
from asr.serve.session import Flushed, Segment, Session
from asr.serve.sockets import Talk, exchange, hotwords, number, parse

_CODINGS = {"linear16": "s16le", "linear32": "s32le", "mulaw": "mulaw", "alaw": "alaw"}
_CONTAINERS = {"flac", "ogg-opus"}  # encodings that say themselves what they are
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # s of silence that ends an utterance, as a client may ask for


@dataclass(frozen=True)
class Wishes:
    """What the address of a connection asks for.

    Raises (by `of`):
        BadMessage: something that cannot be had.
    """

    coding: str | None
    rate: float
    channels: int
    interim: bool
    pause: float | None
    starts: bool
    ends: bool
    hotwords: tuple[Hotword, ...]

    @classmethod
    def of(cls, talk: Talk) -> Wishes:
        query = talk.query
        encoding = query.get("encoding")
        if encoding is not None and encoding not in _CODINGS and encoding not in _CONTAINERS:
            raise BadMessage(f"no encoding {encoding[:40]!r}: send {', '.join([*_CODINGS, *sorted(_CONTAINERS)])}")
        if query.get("multichannel") == "true":
            raise BadMessage("channels are not told apart here: open a connection for each")
        pause = query.get("endpointing")
        if pause is not None and pause not in ("true", "false"):
            pause = number(pause, 0, 60_000, "endpointing") / 1000
            pause = min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE)
        interim = query.get("interim_results") == "true"
        return cls(
            _CODINGS.get(encoding or ""),
            number(query.get("sample_rate", RATE), 1000, 768_000, "sample_rate"),
            int(number(query.get("channels", 1), 1, 16, "channels")),
            interim,
            pause if isinstance(pause, float) else None,
            query.get("vad_events") == "true",
            interim and "utterance_end_ms" in query,
            tuple(word for name in ("keyterm", "keywords") for word in hotwords(query.getlist(name), name)),
        )


def check(talk: Talk) -> None:
    """Raises BadMessage for an address that asks for what cannot be had."""
    Wishes.of(talk)


def reason(error: Exception) -> str:
    """An error as Deepgram's close frames have it."""
    return f"{'NET-0001' if isinstance(error, Silent) else 'DATA-0000'}: {error}"


async def talk_deepgram(talk: Talk, service: Service) -> None:
    """Until the client says `CloseStream`."""
    wishes = Wishes.of(talk)
    async with service.session(wishes.pause, partials=wishes.interim or wishes.starts) as session:
        session.listen_for(wishes.hotwords)
        client = _Client(talk, session, wishes, service.model)
        sound = _Container(session, service.limits.queued_bytes) if wishes.coding is None else _Plain(session, wishes)
        try:
            await exchange(client.read(sound), client.write())
            await client.conclude()
        finally:
            sound.close()


class _Plain:
    """Samples without a header."""

    def __init__(self, session: Session, wishes: Wishes) -> None:
        self._session, self._samples, self._rate = session, Samples(wishes.coding, wishes.channels), wishes.rate
        self.flush, self.end = session.flush, session.end

    def put(self, data: bytes) -> None:
        self._session.put(self._samples(data), self._rate)

    def close(self) -> None:
        """Nothing to let go of."""


class _Container:
    """A sound file whose format its content tells."""

    def __init__(self, session: Session, most: int) -> None:
        loop = asyncio.get_running_loop()
        self._session, self._failure, self._begun = session, None, False

        def heard(block: np.ndarray) -> None:
            loop.call_soon_threadsafe(self._heard, block)

        def ended(failure: Exception | None) -> None:
            loop.call_soon_threadsafe(self._ended, failure)

        self._file = Container(heard, ended, most)
        self.flush = session.flush

    def put(self, data: bytes) -> None:
        if self._failure is not None:
            raise BadMessage(str(self._failure))
        self._begun = True
        self._file.put(data)

    def end(self) -> None:
        if self._begun:
            self.close()
        else:
            self._session.end()

    def close(self) -> None:
        self._file.put(b"")

    def _heard(self, block: np.ndarray) -> None:
        try:
            self._session.put(block, RATE)
        except Exception as error:
            self._failure = error

    def _ended(self, failure: Exception | None) -> None:
        self._failure = self._failure or failure
        self._session.end()


class _Client:
    def __init__(self, talk: Talk, session: Session, wishes: Wishes, model: str) -> None:
        self._talk, self._session, self._wishes = talk, session, wishes
        self._request, self._digest = str(uuid.uuid4()), hashlib.sha256()
        self._created = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._model = {"name": model, "version": "1", "arch": "asr"}
        self._flushes = 0
        self._speaking = False

    async def read(self, sound: _Plain | _Container) -> None:
        ended = False
        while True:
            message = await self._talk.receive(float("inf") if ended else None)
            if ended:
                continue
            if isinstance(message, bytes):
                if not message:
                    ended = True
                    sound.end()
                else:
                    self._digest.update(message)
                    sound.put(message)
                continue
            kind = parse(message).get("type")
            if kind == "Finalize":
                self._flushes += 1
                sound.flush()
            elif kind == "CloseStream":
                ended = True
                sound.end()
            elif kind != "KeepAlive":
                raise BadMessage("neither sound nor Finalize, KeepAlive, CloseStream")

    async def write(self) -> None:
        flushed = False
        async for said in self._session:
            if isinstance(said, Flushed):
                self._flushes -= 1
                if not flushed:
                    at = self._session.seconds
                    await self._talk.send(self._results(Segment(0, "", "", at, at, final=True), True))
                flushed = False
                continue
            if not self._speaking and self._wishes.starts:
                started = {"type": "SpeechStarted", "channel": [0, 1], "timestamp": round(said.start, 3)}
                await self._talk.send(started)
            self._speaking = not said.final
            if not said.final:
                if self._wishes.interim:
                    await self._talk.send(self._results(said, False))
                continue
            flushed = said.reason == "end" and self._flushes > 0
            await self._talk.send(self._results(said, flushed))
            if self._wishes.ends and said.words and said.reason == "pause":
                last = round(said.words[-1].end, 3)
                await self._talk.send({"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": last})

    async def conclude(self) -> None:
        """What follows the last results."""
        await self._talk.send(
            {
                "type": "Metadata",
                "transaction_key": "deprecated",
                "request_id": self._request,
                "sha256": self._digest.hexdigest(),
                "created": self._created,
                "duration": round(self._session.seconds, 3),
                "channels": self._wishes.channels,
            }
        )

    def _results(self, said: Segment, flushed: bool) -> dict[str, Any]:
        words = [_word(word) for word in said.words]
        confidence = sum(word["confidence"] for word in words) / max(1, len(words))
        alternative = {"transcript": said.text, "confidence": confidence, "words": words}
        return {
            "type": "Results",
            "channel_index": [0, 1],
            "start": round(said.start, 3),
            "duration": round(max(0.0, said.end - said.start), 3),
            "is_final": said.final,
            "speech_final": said.final and said.reason == "pause",
            "from_finalize": flushed,
            "channel": {"alternatives": [alternative]},
            "metadata": {"request_id": self._request, "model_uuid": self._request, "model_info": self._model},
        }


def _word(word: Word) -> dict[str, Any]:
    plain = word.text.strip('.,;:!?"()').lower()
    return {
        "word": plain or word.text,
        "start": round(word.start, 3),
        "end": round(word.end, 3),
        "confidence": round(word.confidence, 4),
        "punctuated_word": word.text,
    }

"""What all clients share: who may come in, who is there, and what is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from asr.recognition.options import StreamOptions
from asr.serve.engine import Engine
from asr.serve.limits import Full, Limits, Refusal
from asr.serve.session import Session
from asr.serve.watching import Board

AT_ONCE = 8  # recordings that may wait for their turn, for each that is decoded


class Service:
    """The recogniser as clients find it.

    Args:
        engine: advances streams.
        limits: of what is taken.
        options: how streams are decoded, where their clients do not say.
        model: name of the model, for those who ask.

    Attributes:
        board: what is shown to others.
        connections: that are open.
        closing: is set when the server ends, and nobody comes in.
    """

    def __init__(self, engine: Engine, limits: Limits, options: StreamOptions, model: str = "en") -> None:
        self.engine, self.limits, self.options, self.model = engine, limits, options, model
        self.board = Board()
        self.connections, self.closing = 0, asyncio.Event()
        self._sessions: set[Session] = set()
        self._uploads = 0
        self._turn = asyncio.Semaphore(limits.uploads)
        self._counts: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()

    @property
    def ending(self) -> bool:
        """Whether the server ends."""
        return self.closing.is_set()

    def refuse_if_full(self) -> None:
        """Raises Full if no stream can be opened now."""
        if self.ending:
            raise Full("the server ends: come again")
        if len(self._sessions) >= self.limits.streams:
            raise Full(f"no room: {len(self._sessions)} open, which is the most; come again")

    @asynccontextmanager
    async def session(
        self, pause: float | None = None, number: int = 0, at: float = 0.0, partials: bool = True
    ) -> AsyncIterator[Session]:
        """A stream for a client.

        Args:
            pause: silence that ends an utterance (seconds); None: the server's.
            number, at: see `Session`.
            partials: whether the client wants any.

        Raises:
            Full: there is no room.
        """
        self.refuse_if_full()
        options = self.options if partials else replace(self.options, partials="off")
        if pause is not None and options.endpoint is not None:
            options = replace(options, endpoint=replace(options.endpoint, pause=pause))
        session = Session(self.engine, self.limits, options, number, at)
        self._sessions.add(session)
        self._counts["streams"] += 1
        try:
            yield session
        finally:
            self._sessions.discard(session)
            await session.close()

    @asynccontextmanager
    async def upload(self) -> AsyncIterator[None]:
        """The turn of a recording to be decoded.

        Raises:
            Full: too many are waiting.
        """
        if self.ending or self._uploads >= (1 + AT_ONCE) * self.limits.uploads:
            raise Full("too many recordings are waiting: come again")
        self._uploads += 1
        self._counts["uploads"] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._uploads -= 1

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Somebody is connected.

        Raises:
            Full: too many are.
        """
        if self.connections >= self.limits.connections:
            raise Full(f"{self.connections} connections are open: come again")
        self.connections += 1
        try:
            yield
        finally:
            self.connections -= 1

    def refused(self, refusal: Refusal) -> None:
        """Counts it."""
        self._refusals[refusal.kind] += 1

    async def finish(self) -> None:
        """Nobody comes in any more; open utterances become finals, within the time that the limits have for it."""
        self.closing.set()
        for session in self._sessions:
            session.end()
        deadline = asyncio.get_running_loop().time() + self.limits.closing
        while (self._sessions or self._uploads) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)

    def measures(self) -> dict[str, float]:
        """What there is to know of it, by the names of Prometheus."""
        waiting = [session.waiting for session in self._sessions]
        engine = self.engine
        return {
            "asr_streams": len(self._sessions),
            "asr_streams_most": self.limits.streams,
            "asr_uploads": self._uploads,
            "asr_connections": self.connections,
            "asr_lag_seconds": max(waiting, default=0.0),
            "asr_real_time_factor": engine.busy / engine.sound if engine.sound else 0.0,
            "asr_streams_total": self._counts["streams"],
            "asr_uploads_total": self._counts["uploads"],
            "asr_sound_seconds_total": engine.sound,
            "asr_busy_seconds_total": engine.busy,
            **{f'asr_refusals_total{{reason="{kind}"}}': count for kind, count in sorted(self._refusals.items())},
        }

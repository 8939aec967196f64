"""One client's sound on its way to words: what came in waits to be decoded, what was said waits to be sent."""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asr.audio.samples import check_rate
from asr.events import Endpoint, Event, Final, Partial, Word, on_clock
from asr.recognition.options import StreamOptions
from asr.search.hotwords import Hotword
from asr.serve.engine import Engine
from asr.serve.limits import Limits, Overload

STEP = 0.5  # s of waiting sound that are decoded at once at most, so that streams take turns


@dataclass(frozen=True)
class Segment:
    """An utterance as it is known at a moment. Times are seconds since the sound began.

    Attributes:
        number: from 0; a later segment of the same number replaces this one.
        settled: what no later partial of this number changes; of a final one: all of its text.
        tentative: what follows it and may still change.
        start, end: from where to where it was heard.
        words: of a final one.
        final: nothing of it will change any more.
        reason: why it ended: `pause`, `length` or `end` (of the sound, or because the client said so).
    """

    number: int
    settled: str
    tentative: str
    start: float
    end: float
    words: tuple[Word, ...] = ()
    final: bool = False
    reason: str = ""

    @property
    def text(self) -> str:
        """Settled and tentative words together."""
        return self.settled + self.tentative


class Flushed:
    """All that was put in before `Session.flush` has been decoded, and its last segment is final."""


@dataclass
class _Piece:
    samples: np.ndarray
    rate: float
    decoded: asyncio.Future[None]

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


class Session:
    """A stream that a client feeds without waiting, and that is iterated over for its segments.

    Sound waits within the limits, beyond which putting in more fails. Of segments that wait to be read, a partial gives
    way to its successor; finals stay, within the limits.

    Args:
        engine: advances the stream.
        limits: how much may wait.
        options: how it is decoded.
        number, at: number and time (seconds) of what comes first, where this goes on for a session before it.

    Attributes:
        waiting: seconds of sound that are to be decoded.
        seconds: of sound that have been decoded.
    """

    def __init__(
        self, engine: Engine, limits: Limits, options: StreamOptions, number: int = 0, at: float = 0.0
    ) -> None:
        self._engine, self._limits, self._options = engine, limits, options
        self._servers = options.hotwords
        self.waiting, self.seconds = 0.0, at
        self._number, self._offset, self._shown = number, at, False
        self._final: Final | None = None
        self._inbox: deque[_Piece | str] = deque()
        self._waiting_bytes = self._unread_bytes = 0
        self._outbox: deque[Segment | Flushed] = deque()
        self._came, self._said = asyncio.Event(), asyncio.Event()
        self._ended = False
        self._decoding = asyncio.create_task(self._decode())
        self._decoding.add_done_callback(lambda _: self._said.set())

    def put(self, samples: np.ndarray, rate: float) -> asyncio.Future[None]:
        """Takes samples, see `Stream.accept`; what it gives is done when they have been decoded.

        Raises:
            Overload: more is waiting than the limits allow.
            AudioError: it is no sample rate.
        """
        check_rate(rate)
        decoded = asyncio.get_running_loop().create_future()
        piece = _Piece(samples, rate, decoded)
        if self._ended or not len(samples):
            decoded.set_result(None)
            return decoded
        self.waiting += piece.seconds
        self._waiting_bytes += samples.nbytes
        if self.waiting > self._limits.queued or self._waiting_bytes > self._limits.queued_bytes:
            raise Overload(f"{self.waiting:.0f} s of sound are waiting: it comes faster than it is decoded")
        self._inbox.append(piece)
        self._came.set()
        return decoded

    def set_pause(self, seconds: float) -> None:
        """The silence that ends an utterance, from the next flush on, or from the start if there was no sound yet."""
        if self._options.endpoint is not None:
            self._options = replace(self._options, endpoint=replace(self._options.endpoint, pause=seconds))

    def listen_for(self, words: Sequence[Hotword]) -> None:
        """Further hotwords beside the server's, from the next flush on, or from the start if there was no sound yet."""
        self._options = replace(self._options, hotwords=(*self._servers, *words))

    def flush(self) -> None:
        """Makes a final of what is being said; `Flushed` follows it."""
        self._command("flush")

    def clear(self) -> None:
        """Forgets what has come in since the last final."""
        while self._inbox and isinstance(self._inbox[-1], _Piece):
            self._taken(self._inbox.pop())
        self._command("clear")

    def end(self) -> None:
        """There is no more sound: after the last finals, the segments end."""
        if not self._ended:
            self._command("end")
        self._ended = True

    async def close(self) -> None:
        """Lets go of everything."""
        self._decoding.cancel()
        await asyncio.gather(self._decoding, return_exceptions=True)
        while self._inbox:
            if isinstance(piece := self._inbox.popleft(), _Piece):
                piece.decoded.cancel()

    def take(self) -> list[Segment | Flushed]:
        """What waits to be read, without waiting for more.

        Raises:
            AsrError: the sound could not be decoded, or too much was waiting.
        """
        said, self._unread_bytes = list(self._outbox), 0
        self._outbox.clear()
        if not said and self._decoding.done() and not self._decoding.cancelled():
            self._decoding.result()
        return said

    async def __aiter__(self) -> AsyncIterator[Segment | Flushed]:
        while True:
            ended = self._decoding.done()
            self._said.clear()
            said = self.take()
            if said:
                self._outbox.extendleft(reversed(said[1:]))
                self._unread_bytes = sum(map(_size, self._outbox))
                yield said[0]
            elif ended:
                return
            elif not self._decoding.done():
                await self._said.wait()

    def _command(self, command: str) -> None:
        self._inbox.append(command)
        self._came.set()

    async def _decode(self) -> None:
        try:
            await self._steps()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # else the stream would live until garbage is collected
            raise

    async def _steps(self) -> None:
        """Decodes what comes in, piece by piece, until it ends."""
        stream = rate = None
        while True:
            await self._came.wait()
            if not self._inbox:
                self._came.clear()
                continue
            item = self._inbox.popleft()
            piece = item if isinstance(item, _Piece) else None
            if stream is not None and (piece is None or piece.rate != rate):
                self._tell([] if item == "clear" else await self._engine.finish(stream))
                if item == "clear" and self._shown:
                    self._tell([Endpoint(stream.seconds, "end")])
                self._offset, stream = self.seconds, None
            if item == "flush":
                self._push(Flushed())
            elif item == "end":
                return
            elif piece is not None:
                if stream is None:
                    stream, rate = self._engine.open(self._options), piece.rate
                pieces = [piece, *self._alike(piece)]
                samples = piece.samples if len(pieces) == 1 else np.concatenate([each.samples for each in pieces])
                size = max(1, round(STEP * rate))
                for start in range(0, len(samples), size):
                    part = samples[start : start + size]
                    self._tell(await self._engine.advance(stream, part, rate))
                    self.seconds = self._offset + stream.seconds
                for each in pieces:
                    self._taken(each)

    def _alike(self, first: _Piece) -> list[_Piece]:
        """Pieces behind the first that can be decoded with it in one step."""
        pieces, seconds = [], first.seconds
        while self._inbox and isinstance(piece := self._inbox[0], _Piece):
            seconds += piece.seconds
            same = piece.rate == first.rate and piece.samples.dtype == first.samples.dtype
            if not same or piece.samples.shape[1:] != first.samples.shape[1:] or seconds > STEP:
                break
            pieces.append(self._inbox.popleft())
        return pieces

    def _taken(self, piece: _Piece) -> None:
        self.waiting = max(0.0, self.waiting - piece.seconds)
        self._waiting_bytes -= piece.samples.nbytes
        if not piece.decoded.done():
            piece.decoded.set_result(None)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            event = on_clock(event, lambda seconds: seconds + self._offset)
            if isinstance(event, Partial):
                self._shown = True
                tentative = event.text[len(event.stable) :]
                self._push(Segment(self._number, event.stable, tentative, event.start, event.end))
            elif isinstance(event, Final):
                self._final = event
            elif self._final is not None or self._shown:
                said = self._final or Final("", event.time, event.time)
                self._final, self._shown = None, False
                ended = Segment(self._number, said.text, "", said.start, said.end, said.words, True, event.reason)
                self._number += 1
                self._push(ended)

    def _push(self, said: Segment | Flushed) -> None:
        last = self._outbox[-1] if self._outbox else None
        if isinstance(last, Segment) and not last.final:
            self._unread_bytes -= _size(self._outbox.pop())
        self._outbox.append(said)
        self._unread_bytes += _size(said)
        if self._unread_bytes > self._limits.unread_bytes:
            raise Overload("the words are not read: more of them wait than is kept")
        self._said.set()


def _size(said: Segment | Flushed) -> int:
    """About as many bytes as it takes."""
    return 100 if isinstance(said, Flushed) else 100 + 4 * len(said.text) + 100 * len(said.words)

"""A stream that is decoded elsewhere: what `Stream` does, by the protocol of the caption page."""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from asr.audio.samples import Intake, Samples
from asr.errors import AsrError
from asr.events import Endpoint, Event, Final, Partial, Word
from asr.text import printable

KEPT = 60.0  # s of sound that are sent again after a lost connection at most
PIECE = 0.5  # s in a message at most
PATIENCE = 30.0  # s that a server is waited for, at the start, after a lost connection, and for its last words
AGAIN = 0.5  # s between two attempts
_FOR_EVER = {1008, 1003, 1009}  # close codes after which another attempt would end in the same way


class RemoteStream:
    """One stream of sound at a server of `asr serve`: samples in, events out, as of `Stream`.

    Sound since the last final is kept: when the connection is lost, it is sent again over a new one, so that no word is
    lost or doubled.

    Args:
        address: of the server: `ws://host:port` or `wss://...`; http and https do as well.
        token: that the server asks for.
        share: others may read along at the server's `/watch`.

    Attributes:
        seconds: of sound that have been accepted.

    Raises:
        AsrError: no server there, or it refuses.
    """

    def __init__(self, address: str, token: str | None = None, share: bool = False) -> None:
        parts = urlsplit(address)
        scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
        if scheme not in ("ws", "wss") or not parts.hostname:
            raise AsrError(f"{address}: no address of a server: give ws://host:port")
        self._name = f"{scheme}://{parts.netloc}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._share, self.seconds = share, 0.0
        self._rate: float | None = None
        self._intake: Intake | None = None
        self._kept: deque[tuple[int, np.ndarray]] = deque()  # where each piece begins (samples)
        self._accepted = self._next = 0  # samples; number of the next segment
        self._finished = False
        self._open()

    def accept(self, samples: Samples, rate: float) -> list[Event]:
        """Takes samples as `Stream.accept` does; returns what has come about until now.

        Raises:
            AudioError: these are no samples, or it is no sample rate.
            AsrError: the server has gone for good.
            ValueError: the stream is finished, or the rate has changed.
        """
        if self._finished:
            raise ValueError("this stream is finished: open another one")
        if self._intake is None:
            self._rate, self._intake = rate, Intake(rate)
        elif rate != self._rate:
            raise ValueError(f"the stream began at {self._rate} Hz and goes on at {rate} Hz")
        piece = np.round(self._intake(samples) * 32767).astype("<i2")
        self._kept.append((self._accepted, piece))
        self._accepted += len(piece)
        self.seconds = self._accepted / rate
        while self._accepted - self._kept[0][0] > KEPT * rate:
            self._kept.popleft()
        return self._exchange([piece], 0.0)

    def hurry(self) -> None:
        """Nothing that could be left out is computed here."""

    def finish(self) -> list[Event]:
        """Ends the stream and returns its last events. A second call returns nothing."""
        if self._finished or self._rate is None:
            self._finished = True
            return []
        self._finished = True
        return self._exchange(["end"], PATIENCE)

    def _exchange(self, messages: list[np.ndarray | str], patience: float) -> list[Event]:
        """Sends, and reads what comes within seconds; of a finished stream, until the server closes."""
        events: list[Event] = []
        while True:
            try:
                if self._ready:
                    for message in messages:
                        self._send(message)
                else:
                    self._begin()
                while True:
                    events += self._events(json.loads(self._socket.recv(patience)))
            except TimeoutError:
                if self._finished:
                    raise AsrError(f"{self._name}: no answer for {patience:.0f} s") from None
                return events
            except ConnectionClosed as closed:
                code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
                if self._finished and code == 1000:
                    return events
                if code in _FOR_EVER:
                    raise AsrError(f"{self._name}: {reason or f'closed with {code}'}") from None
                time.sleep(AGAIN)
                self._open()

    def _open(self) -> None:
        """Connects, waiting for a server that is restarting or full."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._socket: ClientConnection = connect(
                    f"{self._name}/v1/captions", additional_headers=self._headers, max_size=1 << 24
                )
                self._ready = False
                return
            except (OSError, InvalidHandshake, ValueError) as error:
                status = error.response.status_code if isinstance(error, InvalidStatus) else None
                lasting = (status is None and not self._accepted) or status not in (None, 503)
                if lasting or time.monotonic() > deadline:
                    raise AsrError(_reason(self._name, error)) from error
                time.sleep(AGAIN)

    def _begin(self) -> None:
        """Tells a new connection where it is, and all that it has to hear again."""
        at = self._kept[0][0] if self._kept else self._accepted
        start = {"type": "start", "rate": self._rate, "segment": self._next, "at": at / self._rate}
        self._socket.send(json.dumps({**start, "share": self._share}))
        for _, piece in self._kept:
            self._send(piece)
        self._ready = True
        if self._finished:
            self._send("end")

    def _send(self, message: np.ndarray | str) -> None:
        if isinstance(message, str):
            return self._socket.send(json.dumps({"type": message}))
        size = max(1, round(PIECE * self._rate))
        for start in range(0, len(message), size):
            self._socket.send(message[start : start + size].tobytes())
        return None

    def _events(self, message: dict) -> list[Event]:
        if message["type"] != "segment":
            return []
        settled, tentative = printable(message["settled"]), printable(message["tentative"])
        text, times = settled + tentative, (message["start"], message["end"])
        if not message["final"]:
            return [Partial(text, settled, *times)]
        self._next = message["number"] + 1
        self._forget(round(times[1] * self._rate))
        words = tuple(
            Word(printable(word["text"]), word["start"], word["end"], word["confidence"]) for word in message["words"]
        )
        return ([Final(text, *times, words)] if text else []) + [Endpoint(times[1], message["reason"])]

    def _forget(self, until: int) -> None:
        while self._kept and self._kept[0][0] + len(self._kept[0][1]) <= until:
            self._kept.popleft()
        if self._kept and self._kept[0][0] < until:
            start, piece = self._kept.popleft()
            self._kept.appendleft((until, piece[until - start :]))


def _reason(name: str, error: Exception) -> str:
    """Why nobody lets us in there."""
    if not isinstance(error, InvalidStatus):
        return f"{name}: no server there: {getattr(error, 'strerror', None) or error}"
    said = ""
    with suppress(ValueError, KeyError, TypeError):
        said = json.loads(error.response.body)["error"]["message"]
    return f"{name}: {said or f'refused with status {error.response.status_code}'}"

"""Sound from a pipe that may stay open when nothing more is said: silence comes in the place of what does not."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

PATIENCE = 0.5  # s without sound after which silence comes
ENOUGH = 2.5  # s of silence at first: an utterance ends in it
AHEAD = 256  # pieces that are decoded in advance at most
TICK = 0.1  # s between two looks at the clock


class Waiting:
    """Pieces of sound from another thread, and silence where they do not come.

    The silence is as long as the wait, less what a source that is faster than real time was ahead; and `ENOUGH` at
    once, so that an utterance does not wait for its final. A source that goes on after that while it was still ahead
    comes in bursts, as some broadcasts do: it gets no more of these.

    Args:
        pieces: samples, (samples,) or (samples, channels).
        rate: hertz.
        end: makes `pieces` end soon, although they wait for a pipe.
    """

    def __init__(self, pieces: Iterator[np.ndarray], rate: int, end: Callable[[], None]) -> None:
        self._pieces, self._rate, self._end = pieces, rate, end
        self._queue: queue.Queue[tuple[float, np.ndarray | BaseException | None]] = queue.Queue(AHEAD)
        self._left = False
        self._thread = threading.Thread(target=self._decode, daemon=True)

    def __enter__(self) -> Iterator[np.ndarray]:
        self._thread.start()
        return self._in_time()

    def __exit__(self, *exception: object) -> None:
        self._left = True
        self._end()
        self._thread.join()

    def _decode(self) -> None:
        last: BaseException | None = None
        try:
            for piece in self._pieces:
                if len(piece):
                    self._put(piece)
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: np.ndarray | BaseException | None) -> None:
        now = time.monotonic()
        while not self._left:
            with suppress(queue.Full):
                self._queue.put((now, item), timeout=TICK)
                break

    def _in_time(self) -> Iterator[np.ndarray]:
        """The pieces and the silence between them."""
        nothing: np.ndarray | None = None
        newest = time.monotonic()  # when the newest piece came
        ahead = given = 0.0  # s of sound that came before they were due; s of silence since the newest piece
        bursts = False
        while True:
            try:
                came, piece = self._queue.get(timeout=TICK)
            except queue.Empty:
                waited = time.monotonic() - newest
                due = max(waited - ahead, 0.0 if bursts else ENOUGH)
                if nothing is not None and waited >= PATIENCE and due > given:
                    yield np.zeros((round((due - given) * self._rate), *nothing.shape[1:]), np.float32)
                    given = due
                continue
            if piece is None:
                return
            if isinstance(piece, BaseException):
                raise piece
            bursts |= given > 0 and came - newest < ahead
            ahead = max(0.0, ahead + given - (came - newest)) + len(piece) / self._rate
            newest, nothing, given = came, piece[:0], 0.0
            yield piece

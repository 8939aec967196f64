"""A recording played in the place of a microphone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from asr.audio.files import AudioFile
from asr.audio.microphone import Statistics
from asr.audio.raw import RawFormat

FILE_BLOCK = 0.1  # s of a recording that are fed at a time


class Playback:
    """A recording in the place of a microphone, at real-time pace or as fast as it is taken; see `Microphone`.

    A pipe that gives nothing more is not waited for; see `AudioFile.blocks`. `track` and `raw` as of `AudioFile`.

    Raises:
        AudioError: at once or while iterating: it cannot be opened or decoded.
    """

    def __init__(self, file: str, realtime: bool, track: int | None = None, raw: RawFormat | None = None) -> None:
        self._audio = AudioFile(file, track=track, raw=raw)
        self.name, self.sample_rate = self._audio.name, self._audio.sample_rate
        self.level, self.statistics, self.skipped = 0.0, Statistics(), []
        self._realtime = realtime
        self._stopped = self._reading = False

    def __enter__(self) -> Playback:
        return self

    def __exit__(self, *exception: object) -> None:
        self._audio.close()

    @property
    def warning(self) -> str | None:
        """One line about damage that was met; complete once the iteration has ended."""
        return self._audio.warning

    def stop(self) -> None:
        """Ends the iteration; for a signal handler: a read that waits for a pipe is interrupted."""
        self._stopped = True
        if self._reading:
            raise KeyboardInterrupt

    def __iter__(self) -> Iterator[np.ndarray]:
        blocks, due = self._audio.blocks(FILE_BLOCK, live=True), time.monotonic()
        while (block := self._next(blocks)) is not None:
            due += len(block) / self.sample_rate
            while self._realtime and not self._stopped and (early := due - time.monotonic()) > 0:
                time.sleep(min(early, 0.05))
            if self._realtime:
                lag = self.statistics.lag = max(0.0, time.monotonic() - due)
                self.statistics.most_lag = max(self.statistics.most_lag, lag)
            self.level = float(np.sqrt(np.mean(np.square(block))))
            yield block

    def _next(self, blocks: Iterator[np.ndarray]) -> np.ndarray | None:
        if self._stopped:
            return None
        try:
            self._reading = True
            block = next(blocks, None)
            self._reading = False
        except KeyboardInterrupt:
            return None
        return block

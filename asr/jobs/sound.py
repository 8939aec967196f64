"""The sound of one input: in memory where it is short, piece by piece where it is long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from asr.audio.files import AudioFile
from asr.recognition.transcript import LONG_SECONDS


class Sound:
    """A recording, read up to where it is known to be long.

    Takes over the file: it is closed when all has been read, on leaving, or where it cannot be read.

    Attributes:
        tracks: the samples `(samples,)` of a short one: one track, or one for each channel.
        separate: its channels are kept apart.
        long: `tracks` is empty: the sound comes out of `blocks`, once.
        seconds: length, as far as it has been read.
        warning: damage, complete when all has been read.

    Raises:
        AudioError: nothing in it can be read.
    """

    def __init__(self, file: AudioFile) -> None:
        try:
            self._read(file)
        except BaseException:
            file.close()
            raise

    def _read(self, file: AudioFile) -> None:
        self._file, self.separate, self.tracks = file, file.separate, []
        self._blocks = file.blocks()
        self._start: list[np.ndarray] = []
        self.seconds = 0.0
        for samples in self._blocks:
            self._start.append(samples)
            self.seconds += len(samples) / file.sample_rate
            if self.seconds > LONG_SECONDS:
                break
        self.long = self.seconds > LONG_SECONDS
        if not self.long:
            whole = np.concatenate(self._start) if self._start else np.empty((0, 1), np.float32)
            whole = whole if whole.ndim == 2 else whole[:, None]
            self.tracks = [np.ascontiguousarray(track) for track in whole.T]
            self._start = []
            self.close()

    def __enter__(self) -> Sound:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def warning(self) -> str | None:
        return self._file.warning

    @property
    def duration(self) -> float | None:
        """Seconds, as the file says; None: it does not."""
        return self._file.duration

    def blocks(self) -> Iterator[np.ndarray]:
        """Blocks `(samples,)`, or `(samples, channels)` where channels are kept apart."""
        start, self._start = self._start, []
        counted = sum(map(len, start))
        for samples in chain(start, self._blocks):
            counted -= len(samples)
            if counted < 0:
                self.seconds += len(samples) / self._file.sample_rate
            yield samples

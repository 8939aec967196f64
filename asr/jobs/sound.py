"""The sound of one input: in memory where it is short, piece by piece where it is long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from asr.audio.files import AudioFile
from asr.errors import AudioError
from asr.jobs.inputs import Input

LONG_SECONDS = 60.0  # a recording beyond this is decoded alone, as a stream


class Sound:
    """A recording that is open.

    Attributes:
        tracks: the samples `(samples,)` of a short one: one track, or one for each channel.
        separate: its channels are kept apart.
        long: `tracks` is empty: the sound comes out of `blocks`, once.
        seconds: length, as far as it has been read.
        warning: damage, complete when all has been read.
    """

    def __init__(self, file: AudioFile) -> None:
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

    def blocks(self) -> Iterator[np.ndarray]:
        """Blocks `(samples,)`, or `(samples, channels)` where channels are kept apart."""
        start, self._start = self._start, []
        counted = sum(map(len, start))
        for samples in chain(start, self._blocks):
            counted -= len(samples)
            if counted < 0:
                self.seconds += len(samples) / self._file.sample_rate
            yield samples


def read_sound(item: Input, sample_rate: int, separate: bool) -> Sound:
    """The sound of an input, read up to where it is known to be long.

    Raises:
        AudioError: nothing in it can be read.
        ManifestError: it is in a tar, and cannot be read.
    """
    file = AudioFile(item.open(), sample_rate, separate=separate)
    try:
        sound = Sound(file)
        if not sound.long and not sound.seconds and file.warning:
            raise AudioError(file.warning)
        return sound
    except BaseException:
        file.close()
        raise

"""The clock of a container: where its time stamps jump ahead, silence stands for what is not there."""

from __future__ import annotations

TOLERANCE = 0.1  # s that time stamps may be off; many containers round them, and ffmpeg's resampler allows as much
LONGEST_GAP = 3600.0  # s: a larger jump is no gap but another clock, as is one back
BACK = 1.0  # s


class Timeline:
    """Follows the sound of a file along its time stamps.

    Args:
        zero: the time stamp (seconds) at which the file starts, sound or not.

    Attributes:
        seconds: how much sound and silence there has been.
        filled: how much of it is silence that stands for gaps after the first sound (seconds).
    """

    def __init__(self, zero: float) -> None:
        self._zero = zero
        self._heard = False
        self.seconds = self.filled = 0.0

    def silence_before(self, stamp: float | None) -> float:
        """Seconds of silence that belong before sound of that time stamp (seconds), which counts as given."""
        if stamp is None:
            return 0.0
        gap = stamp - self._zero - self.seconds
        if not -BACK <= gap <= LONGEST_GAP:
            self._zero = stamp - self.seconds
            return 0.0
        if gap <= TOLERANCE:
            return 0.0
        self.seconds += gap
        if self._heard:
            self.filled += gap
        return gap

    def advance(self, seconds: float) -> None:
        """Sound of that length has been given."""
        self._heard = True
        self.seconds += seconds

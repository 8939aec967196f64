"""Whether recognition keeps up with the sound, and when it may try again after it did not."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BEHIND = 2.0  # s; the reading of a long utterance's final may take so long, what comes after it must not
PATIENCE = 15.0  # s of sound with room before the first new trial; twice as long before each further one
LONGEST_PATIENCE = 900.0  # s
ROOM = 0.5  # load below which there is room


@dataclass
class Pace:
    """How far a stream would be behind if its sound came from a microphone.

    Computing that takes longer than the sound that it is for adds up; what is quicker catches up. A pause to compute
    (a final, the first chunk after loading) does no harm, a load above 1 does: then the stream takes it `easy`. After a
    while with room to spare it tries again; a machine that is too slow for good is tried ever more rarely.

    Attributes:
        most_behind: seconds from which on the stream does not keep up.
        behind: seconds.
        easy: computes no more than it must.
        patience: seconds of sound with room before it tries again.
    """

    most_behind: float = MOST_BEHIND
    behind: float = 0.0
    easy: bool = False
    patience: float = PATIENCE
    _sound: float = 0.0  # seconds since it last was behind, had no room, or changed
    _took: float = 0.0

    def keep(self, sound: float, took: float) -> None:
        """Takes notice of seconds of sound and the seconds that they took to compute."""
        self.behind = max(0.0, self.behind + took - sound)
        self._sound, self._took = self._sound + sound, self._took + took
        late = self.behind > self.most_behind
        if late and not self.easy:
            self._turn(True)
        elif self.easy and (late or self._took > ROOM * self._sound):
            self._sound = self._took = 0.0
        elif self.easy and self._sound >= self.patience:
            self._turn(False)
            self.patience = min(2 * self.patience, LONGEST_PATIENCE)
        elif self._sound >= LONGEST_PATIENCE:
            self.patience = PATIENCE

    def _turn(self, easy: bool) -> None:
        self.easy, self._sound, self._took = easy, 0.0, 0.0

"""Whether recognition keeps up with the sound."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BEHIND = 2.0  # s; the reading of a long utterance's final may take so long, what comes after it must not


@dataclass
class Pace:
    """How far a stream would be behind if its sound came from a microphone.

    Computing that takes longer than the sound that it is for adds up; what is quicker catches up. A pause to compute
    (a final, the first chunk after loading) does no harm, a load above 1 does.

    Attributes:
        most_behind: seconds from which on the stream does not keep up.
        behind: seconds.
    """

    most_behind: float = MOST_BEHIND
    behind: float = 0.0

    def keeps_up(self, sound: float, took: float) -> bool:
        """Takes notice of seconds of sound and the seconds that they took to compute."""
        self.behind = max(0.0, self.behind + took - sound)
        return self.behind <= self.most_behind

"""A text that an attention decoder has written, as far as it has got."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Hypothesis:
    """Piece ids without start and end, the log-probability of each, and how many letters they have together."""

    pieces: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    letters: int = 0

    def add(self, piece: int, score: float, letters: int) -> None:
        """Goes on by a piece that has so many letters."""
        self.pieces.append(piece)
        self.scores.append(score)
        self.letters += letters

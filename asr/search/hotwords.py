"""Words and phrases that a user expects: CTC says which of them it may have heard, the decoder leans towards these.

Only what CTC may have heard is offered to the decoder, so that a long list does not harm what is not on it (Andrusenko
et al. 2024, "Fast context-biasing for CTC and transducer ASR models with CTC-based word spotter"). The decoder gets a
bonus on each piece that begins such a word or goes on with it, more the further it is (Le et al. 2021, "Contextualized
streaming end-to-end speech recognition with trie-based deep biasing and shallow fusion").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from asr.audio.samples import is_number
from asr.errors import ConfigError
from asr.search.hypothesis import Hypothesis
from asr.search.rules import Rule
from asr.tokenizer import CtcTokenizer, PieceTable

BONUS = 2.0  # nats, of the first piece
SPOTTED = -2.5  # nats a piece by which CTC may prefer other letters at most
FAINTEST = -6.0  # nats at most that one position tells against a word
MOST_SPOTTED = 8  # words of an utterance that are offered
SAFE = 2.0  # weight up to which other words were not harmed
SAFE_LIST = 1000  # words up to which they were not
LONGEST_LIST = 5000


@dataclass(frozen=True)
class Hotword:
    """A word or phrase that is likelier than others.

    Attributes:
        text: as it is to be written.
        spoken: how it may be said, in letters; none = as it is written.
        weight: of its bonus; 1 is what was tuned.
    """

    text: str
    spoken: tuple[str, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not any(map(str.isalnum, self.text)):
            raise ConfigError(f"hotword {self.text!r}: holds no letters")
        if not is_number(self.weight) or not 0 <= self.weight < math.inf:
            raise ConfigError(f"hotword {self.text!r}: its weight is a number of at least 0, not {self.weight}")


def parse_hotword(line: str) -> Hotword:
    """A line of a list: `TEXT`, `TEXT = SPOKEN, SPOKEN`, either followed by `* WEIGHT`.

    Raises:
        ConfigError: no text, or a weight that is no number.
    """
    words, star, weight = line.partition("*")
    text, _, spoken = words.partition("=")
    try:
        factor = float(weight) if star else 1.0
    except ValueError as error:
        raise ConfigError(f"hotword {line.strip()!r}: after * stands a number, its weight") from error
    ways = tuple(" ".join(way.split()) for way in spoken.split(",") if way.strip())
    return Hotword(" ".join(text.split()), ways, factor)


def as_hotword(word: Hotword | str) -> Hotword:
    """A hotword, or a line that tells one.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(word, str):
        return parse_hotword(word)
    if not isinstance(word, Hotword):
        raise ConfigError(f"hotword {word!r}: must be text or a Hotword")
    return word


class Spotter:
    """How well CTC hears each of many words somewhere along the positions of one utterance.

    The best path through a word's pieces against the best path of all over the same positions, in nats a piece: 0 where
    CTC hears the word and nothing else.

    Args:
        words: CTC outputs of each, none empty.
        blank: the output that stands for none.
    """

    def __init__(self, words: Sequence[Sequence[int]], blank: int = 0) -> None:
        longest = max(map(len, words), default=0)
        self._sizes = torch.tensor([len(word) for word in words])
        states = torch.full((len(words), 2 * longest), blank)
        states[:, ::2] = torch.tensor([[*word, *[word[-1]] * (longest - len(word))] for word in words])
        self._states = states  # piece, blank, piece, ...; those after a word's end lead nowhere
        again = torch.zeros(len(words), 2 * longest, dtype=torch.bool)
        again[:, 2::2] = states[:, 2::2] == states[:, :-2:2]
        self._again = again  # pieces that only a blank parts from the one before
        self._paths = torch.full((len(words), 2 * longest + 2), -math.inf)
        self._best = torch.full((len(words),), -math.inf)

    def accept(self, log_probs: Tensor) -> None:
        """The next positions `(positions, vocabulary)`."""
        if not len(self._sizes):
            return
        log_probs = log_probs.float().cpu()
        against = (log_probs - log_probs.amax(1, keepdim=True)).clamp(min=FAINTEST)[:, self._states.flatten()]
        last = (2 * self._sizes)[:, None]
        for row in against.unflatten(1, self._states.shape):
            paths = self._paths
            paths[:, 1] = 0.0  # a word may begin anywhere
            skipped = paths[:, :-2].masked_fill(self._again, -math.inf)
            skipped[:, 1::2] = -math.inf  # a blank follows its own piece only
            fresh = torch.maximum(torch.maximum(paths[:, 2:], paths[:, 1:-1]), skipped) + row
            self._paths = torch.cat([paths[:, :2], fresh], 1)
            torch.maximum(self._best, self._paths.gather(1, last)[:, 0], out=self._best)

    @property
    def scores(self) -> Tensor:
        """Nats a piece, `(words,)`."""
        return self._best / self._sizes


class Hotwords:
    """A list of hotwords as a model hears and writes them.

    Args:
        words: the list.
        tokenizer: of CTC.
        table: the decoder's pieces.

    Raises:
        ConfigError: there are too many.
    """

    def __init__(self, words: Sequence[Hotword], tokenizer: CtcTokenizer, table: PieceTable) -> None:
        if len(words) > LONGEST_LIST:
            raise ConfigError(f"{len(words)} hotwords: at most {LONGEST_LIST} can be listened for")
        self.table = table
        self._words: list[Hotword] = []  # of each way to say one
        self._ways: list[list[int]] = []
        for word in words:
            for way in word.spoken or (word.text,):
                outputs = [output for part in way.split() for output in tokenizer.spell(part)]
                if outputs:
                    self._words.append(word)
                    self._ways.append(outputs)

    def spotter(self) -> Spotter:
        """For a new utterance."""
        return Spotter(self._ways)

    def spotted(self, spotter: Spotter) -> list[Hotword]:
        """What it may have heard, the likeliest first."""
        scores = spotter.scores.tolist()
        order = sorted((i for i, score in enumerate(scores) if score > SPOTTED), key=lambda i: -scores[i])
        return list(dict.fromkeys(self._words[i] for i in order))[:MOST_SPOTTED]

    def heard_in(self, log_probs: Tensor) -> list[Hotword]:
        """What may have been heard in a whole utterance `(positions, vocabulary)`."""
        spotter = self.spotter()
        spotter.accept(log_probs)
        return self.spotted(spotter)

    def rule(self, words: Sequence[Hotword]) -> Rule:
        """Leans towards these words."""
        return Leaning(self.table, words)


class Leaning(Rule):
    """A bonus on pieces that begin one of some words or go on with it, however it is cut into pieces, in any case."""

    def __init__(self, table: PieceTable, words: Sequence[Hotword]) -> None:
        self.table = table
        self._words = [(f" {word.text.casefold()}", BONUS * word.weight) for word in words]
        self._longest = max((len(text) for text, _ in self._words), default=0)

    def filter(self, text: Hypothesis, scores: Tensor) -> None:
        pieces = _by_text(self.table)
        ending, depths = self._ending(text)
        bonus: dict[int, float] = {}
        for word, weight in self._words:
            known = next((n for n in range(min(len(word), len(ending)), 0, -1) if word.startswith(ending[-n:])), 0)
            if known == len(word):
                continue
            depth = depths[-known] if known else 0
            for end in range(max(known, 1) + 1, len(word) + 1):  # a space alone begins any word
                for piece in pieces.get(word[known:end], ()):
                    bonus[piece] = max(bonus.get(piece, 0.0), weight * (1 + math.log(1 + depth)))
        if bonus:
            index = torch.tensor(list(bonus), device=scores.device)
            scores[index] += torch.tensor(list(bonus.values()), device=scores.device)

    def _ending(self, text: Hypothesis) -> tuple[str, list[int]]:
        """The last characters, and for each how many pieces there are from it to the end."""
        ending, depths = "", []
        for count, piece in enumerate(reversed(text.pieces), start=1):
            if len(ending) >= self._longest:
                break
            part = self.table.raw(piece).casefold()
            ending, depths = part + ending, [count] * len(part) + depths
        return ending, depths


@lru_cache(maxsize=4)
def _by_text(table: PieceTable) -> dict[str, list[int]]:
    """The pieces of each text, whatever its capitals."""
    found: dict[str, list[int]] = {}
    for piece in range(len(table)):
        if text := table.raw(piece):
            found.setdefault(text.casefold(), []).append(piece)
    return found

"""Words into subtitles: what stands on the screen together, in which lines, from when to when.

The limits are those that subtitle editors check by default (Netflix Timed Text Style Guide, BBC Subtitle Guidelines):
two lines of 42 characters, a cue between one and seven seconds, two frames between one and the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len, chop_cells

from asr.events import Word

LINE = 42  # columns: of those, the letters of Chinese, Japanese and Korean take two
LONGEST, SHORTEST = 7.0, 1.0  # s that a cue stands
GAP = 0.084  # s between cues: two frames at 24 a second
LINGER = 0.5  # s that a cue stays after its last word, where there is room
PAUSE = 0.6  # s between words at which a cue is better broken

_SENTENCE, _CLAUSE = (".", "?", "!", "…"), (",", ";", ":")
CRAMPED, IMPOSSIBLE = 30.0, 1e6  # costs of a cue with less than its second, and with none


@dataclass(frozen=True)
class Cue:
    """One subtitle: lines of text, shown from `start` to `end` (seconds)."""

    start: float
    end: float
    lines: tuple[str, ...]


def make_cues(utterances: Sequence[Sequence[Word]], prefix: str = "", seconds: float | None = None) -> list[Cue]:
    """Subtitles of utterances (the words of each, in order), best by the costs of each break.

    Breaks at ends of utterances, at pauses and after punctuation are the better ones; a cue that its successor leaves
    less than a second is worse than one that joins two utterances. `prefix` stands before the words of each cue. No cue
    outlasts the recording, where it is known how many `seconds` that has.
    """
    tokens = [(piece, last) for words in utterances for piece, last in _tokens(words, LINE - cell_len(prefix))]
    words = [word for word, _ in tokens]
    close = math.inf if seconds is None else seconds
    starts = [*(word.start for word in words), close + GAP]
    broken = [_break_cost(word, last, starts[i + 1]) for i, (word, last) in enumerate(tokens)]
    joined = list(accumulate((_join_cost(*tokens[i], starts[i + 1]) for i in range(len(words))), initial=0.0))
    best, previous = [0.0] + [math.inf] * len(words), [0] * (len(words) + 1)
    for end in range(1, len(words) + 1):
        text = ""
        for begin in range(end - 1, -1, -1):
            text = f"{words[begin].text} {text}" if text else words[begin].text
            if begin < end - 1 and (not _fits(prefix + text) or words[end - 1].end - words[begin].start > LONGEST):
                break
            cost = best[begin] + joined[end - 1] - joined[begin] + broken[end - 1] + 0.1 * (cell_len(text) > LINE)
            room = starts[end] - GAP - starts[begin]
            cost += 0.0 if room >= SHORTEST else CRAMPED if room > 0 else IMPOSSIBLE
            if cost < best[end]:
                best[end], previous[end] = cost, begin
    spans, end = [], len(words)
    while end:
        spans.append((previous[end], end))
        end = previous[end]
    return _timed([words[begin:end] for begin, end in reversed(spans)], prefix, close)


def break_lines(text: str) -> tuple[str, ...]:
    """A text in one line or in two of about equal length, the first one rather after punctuation."""
    pairs = [] if cell_len(text) <= LINE else _pairs(text)
    if not pairs:
        return (text,)

    def cost(pair: tuple[str, str]) -> int:
        return abs(cell_len(pair[0]) - cell_len(pair[1])) - 12 * pair[0].endswith(_SENTENCE + _CLAUSE)

    return min(pairs, key=cost)


def _pairs(text: str) -> list[tuple[str, str]]:
    """All ways to break a text into two lines."""
    spaces = [i for i, character in enumerate(text) if character == " "]
    pairs = [(text[:i], text[i + 1 :]) for i in spaces]
    return [pair for pair in pairs if max(map(cell_len, pair)) <= LINE]


def _fits(text: str) -> bool:
    """Whether a text has room in two lines."""
    width = cell_len(text)
    return width <= LINE or (width <= 2 * LINE + 1 and bool(_pairs(text)))


def _tokens(words: Sequence[Word], width: int) -> list[tuple[Word, bool]]:
    """Words, cut where one is wider than a line, each with whether it is the utterance's last; none for line breaks."""
    pieces: list[Word] = []
    for word in words:
        parts = chop_cells(" ".join(word.text.split()), width)
        step = (word.end - word.start) / max(1, len(parts))
        for i, part in enumerate(parts):
            start = word.start + i * step
            pieces.append(Word(part, start, start + step, word.confidence))
    return [(piece, i == len(pieces) - 1) for i, piece in enumerate(pieces)]


def _break_cost(word: Word, last: bool, following: float) -> float:
    """How bad it is to end a cue after a word; the constant part keeps cues few."""
    if last or following - word.end >= PAUSE:
        return 1.0
    return 1.2 if word.text.endswith(_SENTENCE) else 2.0 if word.text.endswith(_CLAUSE) else 3.5


def _join_cost(word: Word, last: bool, following: float) -> float:
    """How bad it is to go on after a word in the same cue."""
    cost = 4.0 if last else 0.5 if word.text.endswith(_SENTENCE) else 0.0
    return cost + (1.5 if following - word.end >= PAUSE else 0.0)


def _timed(groups: list[Sequence[Word]], prefix: str, close: float) -> list[Cue]:
    """Cues of groups of words: each begins with its first word and ends before the next one and by `close`."""
    cues: list[Cue] = []
    for i, words in enumerate(groups):
        start = words[0].start
        if cues:
            start = max(start, cues[-1].end + GAP)
        wanted = max(words[-1].end + LINGER, start + SHORTEST)
        latest = groups[i + 1][0].start - GAP if i + 1 < len(groups) else close
        end = max(min(wanted, start + LONGEST, latest), min(start + SHORTEST, wanted))
        if start < close < end:
            end = close
        text = prefix + " ".join(word.text for word in words)
        cues.append(Cue(start, end, break_lines(text)))
    return cues

"""Words on their way to being written otherwise: each knows which of the words that were heard it stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asr.events import Word

CLOSING = frozenset(",.?!:;)]”…")  # stand at the end of the word before
OPENING = frozenset("([“")  # stand at the beginning of the word after
_ENDS = "".join(CLOSING)
_PARTS = re.compile(r"\n*[^\s]+\n*|\n+")


@dataclass(frozen=True)
class Token:
    """What is written for the words `[first, last)` of an utterance.

    Attributes:
        mark: it was spoken as a mark, and is none of the words that numbers and `plain` are about.
    """

    text: str
    first: int
    last: int
    mark: bool = False


def join(texts: Iterable[str]) -> str:
    """Words or utterances as one text: with spaces, but none beside a line break, before marks that stand alone and
    close something, and after one that opens something."""
    joined = ""
    for text in filter(None, texts):
        closes = text[0] in CLOSING and not text.lstrip(_ENDS)[:1].strip()
        opens = joined[-1:] in OPENING and (len(joined) == 1 or joined[-2].isspace())
        tight = closes or opens or joined[-1:] in ("", "\n") or text[0] == "\n"
        joined += text if tight else f" {text}"
    return joined


def edges(word: str) -> tuple[str, str, str]:
    """The marks before a word, the word, and the marks after it; a currency's sign and % belong to the word."""
    begin, end = 0, len(word)
    while begin < end and _is_mark(word[begin]):
        begin += 1
    while end > begin and _is_mark(word[end - 1]):
        end -= 1
    return word[:begin], word[begin:end], word[end:]


def timed(tokens: Sequence[Token], words: Sequence[Word]) -> tuple[Word, ...]:
    """Tokens as words with times: one that stands for several words lasts as long as they do and is as sure as the one
    that is least so; several that stand for one share its time by their letters."""
    timed: list[Word] = []
    begin = 0
    while begin < len(tokens):
        end, first, last = begin + 1, tokens[begin].first, tokens[begin].last
        while end < len(tokens) and tokens[end].first < last:
            end, last = end + 1, max(last, tokens[end].last)
        parts = [part for token in tokens[begin:end] for part in _PARTS.findall(token.text)]
        timed += _shared(parts, words[first:last])
        begin = end
    return tuple(timed)


def _shared(parts: Sequence[str], words: Sequence[Word]) -> list[Word]:
    start, end, confidence = words[0].start, words[-1].end, min(word.confidence for word in words)
    letters, said = sum(map(len, parts)), 0
    times = [start]
    for part in parts:
        said += len(part)
        times.append(end if said == letters else start + (end - start) * said / letters)
    return [Word(part, times[i], times[i + 1], confidence) for i, part in enumerate(parts)]


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and character not in "%&@#"

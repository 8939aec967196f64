"""How words are written: numbers, marks and capitals, spoken punctuation, replacements; and events that are so."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, get_args

from asr.errors import ConfigError
from asr.events import Event, Final, Partial
from asr.writing import figures, spelling
from asr.writing.punctuation import LOOK_AHEAD, attach, find_marks
from asr.writing.replacements import REACH, Replacement, parse_replacement, replace_in
from asr.writing.tokens import Token, join, timed

Numbers = Literal["as-heard", "digits", "words"]
_NUMBERS = {"digits": figures, "words": spelling}
_DASHES = re.compile(r"(?<!\d)[-‐‑–—/]+|[-‐‑–—/]+(?!\d)")  # that part words
_SYMBOLS = "%&@#"  # that are said


@dataclass(frozen=True)
class Writing:
    """How words are written; as they are heard, if nothing else is said.

    Attributes:
        numbers: as the recogniser writes them, in `digits` or in `words`.
        plain: in lower case and without punctuation.
        spoken_punctuation: "comma", "new line" and the like are commands, where they are meant so.
        replacements: regular expressions and what is written for them, one after the other, after all else; a string
            is one as `parse_replacement` reads it.

    Raises:
        ConfigError: one of them has an impossible value.
        AsrError: there are replacements, and RE2 is missing.
    """

    numbers: Numbers = "as-heard"
    plain: bool = False
    spoken_punctuation: bool = False
    replacements: Iterable[Replacement | str] = ()

    def __post_init__(self) -> None:
        if self.numbers not in get_args(Numbers):
            raise ConfigError(f"numbers: must be one of {', '.join(get_args(Numbers))}, not {self.numbers!r}")
        for name in ("plain", "spoken_punctuation"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}: must be True or False, not {getattr(self, name)!r}")
        if isinstance(self.replacements, str) or not isinstance(self.replacements, Iterable):
            raise ConfigError(f"replacements: must be a list of them, not {self.replacements!r}")
        object.__setattr__(self, "replacements", tuple(map(_as_replacement, self.replacements)))

    @property
    def changes(self) -> bool:
        """Whether anything may be written otherwise than it is heard."""
        return self.numbers != "as-heard" or self.plain or self.spoken_punctuation or bool(self.replacements)

    def write(self, words: Sequence[str], begin: int = 0) -> list[Token]:
        """What is written for words `[begin, ...)` of an utterance; those before them are only looked at."""
        tokens = [Token(word, i, i + 1) for i, word in enumerate(words)]
        if self.spoken_punctuation:
            tokens = find_marks(words)
        written: list[Token] = []
        before = next((token.text for token in reversed(tokens) if token.last <= begin), "")
        for mark, run in groupby((token for token in tokens if token.first >= begin), key=lambda token: token.mark):
            run = list(run)
            written += run if mark else self._write_between(run, before)
            before = run[-1].text
        written = attach(written)
        return replace_in(written, self.replacements) if self.replacements else written

    def settled(self, words: Sequence[str], begin: int, known: int) -> int:
        """Up to where words `[begin, known)`, which will not change, are written alike whatever follows them."""
        end = known - max(LOOK_AHEAD * self.spoken_punctuation, REACH * bool(self.replacements))
        while end > begin and self.numbers != "as-heard" and _NUMBERS[self.numbers].goes_on(words[end - 1]):
            end -= 1
        return max(begin, end)

    def _write_between(self, tokens: list[Token], before: str) -> list[Token]:
        """Words between spoken marks."""
        if self.numbers != "as-heard":
            texts = [token.text for token in tokens]
            for start, end, text in reversed(_NUMBERS[self.numbers].write(texts, before)):
                tokens[start:end] = [Token(text, tokens[start].first, tokens[end - 1].last)]
        if self.plain:
            tokens = [replace(token, text=plain(token.text)) for token in tokens]
        return [token for token in tokens if token.text]


class Rewriter:
    """Partials of one stream as they are to be written. `stable` goes as far as nothing that may follow is going to
    change how it is written, and is never taken back.
    """

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self.begin()

    def begin(self) -> None:
        """An utterance begins."""
        self._text = self._stable = ""
        self._settled = 0  # words that are written in `_stable`

    def partial(self, event: Partial) -> list[Partial]:
        """None where it is the same as the last one of its utterance."""
        if not self._writing.changes:
            return [event]
        words, known = event.text.split(), len(event.stable.split())
        if event.stable and not event.text[len(event.stable) :][:1].isspace() and event.text != event.stable:
            known -= 1  # a part of a word
        tokens = self._writing.write(words, self._settled)
        end = self._writing.settled(words, self._settled, known)
        count = next((i for i, token in enumerate(tokens) if token.last > end), len(tokens))
        before = self._text, self._stable
        self._stable = join([self._stable, *(token.text for token in tokens[:count])])
        self._text = join([self._stable, *(token.text for token in tokens[count:])])
        self._settled = min(end, tokens[count].first) if count < len(tokens) else end
        return [] if (self._text, self._stable) == before else [replace(event, text=self._text, stable=self._stable)]


def rewrite(writing: Writing, events: Iterable[Event]) -> list[Event]:
    """The events with their finals as they are to be written, those left out of which nothing is left."""
    if not writing.changes:
        return list(events)
    rewritten: list[Event] = []
    for event in events:
        if isinstance(event, Final):
            words = timed(writing.write([word.text for word in event.words]), event.words)
            if words:
                rewritten.append(replace(event, text=join(word.text for word in words), words=words))
        else:
            rewritten.append(event)
    return rewritten


def plain(text: str) -> str:
    """A text in lower case without punctuation; apostrophes within words and marks within figures stay."""
    text = _DASHES.sub(" ", text.lower().replace("’", "'"))
    kept = (character for i, character in enumerate(text) if _stays(text[i - 1 : i], character, text[i + 1 : i + 2]))
    return " ".join("".join(kept).split())


def _stays(before: str, character: str, after: str) -> bool:
    if unicodedata.category(character)[0] != "P" or character in _SYMBOLS:
        return True
    return (before.isdecimal() and after.isdecimal()) or (character == "'" and before.isalnum() and after.isalnum())


def _as_replacement(one: Replacement | str) -> Replacement:
    if isinstance(one, str):
        return parse_replacement(one)
    if not isinstance(one, Replacement):
        raise ConfigError(f"replacement {one!r}: must be text or a Replacement")
    return one

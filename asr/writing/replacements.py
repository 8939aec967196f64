"""What users want written in place of what: regular expressions, a line each, `PATTERN => TEXT`.

They are RE2's (https://github.com/google/re2/wiki/Syntax), which take no longer on some texts than on others: a live
stream must not stand still for one. So there are no look-arounds and no references within a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from asr.errors import AsrError, ConfigError
from asr.writing.tokens import Token, join

Words = tuple[int, int]  # [first, last) of an utterance
ARROW = "=>"
LONGEST = 20_000  # letters of an utterance; a replacement that would make it longer is left out
REACH = 8  # words that one may be about while the utterance is open; finals are replaced in as a whole
_ESCAPES = re.compile(r"\\(\d|.)", re.DOTALL)
_LETTERS = {"n": "\n", "\\": "\\"}


@dataclass(frozen=True)
class Replacement:
    r"""A pattern, in any case unless it begins with `(?-i)`, and what is written for it: \1 is its first group, \n a
    line break.

    Raises:
        ConfigError: it is no regular expression, or `text` names a group that it does not have.
        AsrError: RE2 is missing.
    """

    pattern: str
    text: str

    def __post_init__(self) -> None:
        compiled = _compiled(self.pattern)
        for escape in _ESCAPES.findall(self.text):
            if escape.isdecimal() and int(escape) > compiled.groups:
                raise ConfigError(f"{self}: there is no group {escape} in the pattern")
            if not escape.isdecimal() and escape not in _LETTERS:
                raise ConfigError(f"{self}: \\{escape} in the text is none of \\1 to \\9, \\n and \\\\")

    def __str__(self) -> str:
        return f"replacement {self.pattern} {ARROW} {self.text}"

    def expanded(self, found: Any) -> str:
        """What is written for a match."""
        return _ESCAPES.sub(
            lambda escape: _LETTERS[escape[1]] if escape[1] in _LETTERS else found.group(int(escape[1])) or "",
            self.text,
        )


def parse_replacement(line: str) -> Replacement:
    """A line of a list.

    Raises:
        ConfigError: it is none.
        AsrError: RE2 is missing.
    """
    pattern, arrow, text = line.partition(ARROW)
    if not arrow or not pattern.strip():
        raise ConfigError(f"replacement {line.strip()!r}: write PATTERN {ARROW} TEXT")
    return Replacement(pattern.strip(), text.strip())


def replace_in(tokens: Sequence[Token], replacements: Sequence[Replacement]) -> list[Token]:
    """Words with all that is replaced in their text; what is written for several stands for all of them."""
    text = join(token.text for token in tokens)
    owners = _owners(text, tokens)
    for replacement in replacements:
        parts, kept, at = [], [], 0
        for found in _compiled(replacement.pattern).finditer(text):
            start, end = found.span()
            if start == end:
                continue
            written = replacement.expanded(found)
            parts += [text[at:start], written]
            kept += [*owners[at:start], *[_owner(owners, start, end)] * len(written)]
            at = end
        replaced = "".join([*parts, text[at:]])
        if at and len(replaced) <= max(LONGEST, len(text)):
            text, owners = replaced, [*kept, *owners[at:]]
    return _words(text, owners)


def _owners(text: str, tokens: Sequence[Token]) -> list[Words | None]:
    """For each letter the words `[first, last)` that it stands for; None: it is a space between them."""
    owners: list[Words | None] = []
    for token in tokens:
        at = text.index(token.text, len(owners))
        owners += [None] * (at - len(owners)) + [(token.first, token.last)] * len(token.text)
    return owners


def _owner(owners: Sequence[Words | None], start: int, end: int) -> Words | None:
    """What letters `[start, end)` stand for together; where they are spaces, what the letter beside them does."""
    owned = [owner for owner in owners[start:end] if owner is not None]
    if owned:
        return owned[0][0], max(last for _, last in owned)
    return next((owner for owner in (*reversed(owners[:start]), *owners[end:]) if owner is not None), None)


def _words(text: str, owners: Sequence[Words | None]) -> list[Token]:
    tokens: list[Token] = []
    for found in re.finditer(r"\n*[^\s]+\n*|\n+", text):
        owner = _owner(owners, *found.span())
        if owner is not None:
            tokens.append(Token(found[0], *owner))
    return tokens


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    try:
        import re2
    except ImportError as error:
        raise AsrError("google-re2 is missing: pip install 'asr[replacements]'") from error
    options = re2.Options()
    options.case_sensitive, options.log_errors = False, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "not understood"
        raise ConfigError(f"replacement {pattern}: no regular expression of RE2: {reason}") from error

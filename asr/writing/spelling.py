"""Figures as words: 23 -> twenty-three, $2.50 -> two dollars and fifty cents, 1984 -> nineteen eighty-four."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from asr.writing.figures import Span
from asr.writing.numbers import LARGE, ORDINALS, SMALL
from asr.writing.tokens import edges

_WORDS = list(SMALL)
_ONES, _TENS = _WORDS[:20], _WORDS[20:]
_ORDINAL = {cardinal: ordinal for ordinal, cardinal in ORDINALS.items()}
_COINS = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
}
_LONGEST = 15  # figures that are read as one number
_AMOUNT = r"\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_SENTENCE = (".", "?", "!", "…", "\n")


def write(words: Sequence[str], before: str = "") -> list[Span]:
    """Which words `[start, end)` that are figures become what; before them stands a word or mark, or nothing."""
    spans: list[Span] = []
    for i, word in enumerate(words):
        lead, core, trail = edges(word)
        end, scale = i + 1, ""
        if core[:1] in _COINS and not trail and end < len(words) and edges(words[end])[1].lower() in LARGE:
            _, scale, trail = edges(words[end])
            end += 1
        said = _said(core, scale)
        if said is None:
            continue
        if (words[i - 1] if i else before or "\n").endswith(_SENTENCE):
            said = said[:1].upper() + said[1:]
        spans.append((i, end, lead + said + trail))
    return spans


def goes_on(word: str) -> bool:
    """Whether what becomes of a word may depend on the one after it: million after $5."""
    return edges(word)[1][:1] in _COINS


def cardinal(number: int) -> str:
    """A number below 10^15 in words: twenty-three, one hundred five."""
    for word, scale in reversed([("hundred", 100), *LARGE.items()]):
        if number >= scale:
            rest = number % scale
            return f"{cardinal(number // scale)} {word}" + (f" {cardinal(rest)}" if rest else "")
    if number < len(_ONES):
        return _ONES[number]
    tens = _TENS[number // 10 - 2]
    return f"{tens}-{_ONES[number % 10]}" if number % 10 else tens


def ordinal(number: int) -> str:
    """The same as an ordinal: twenty-third."""
    head, last = re.fullmatch(r"(.*[ -])?(\w+)", cardinal(number)).groups("")
    return head + _ORDINAL[last]


def _said(core: str, scale: str) -> str | None:
    """What is said for figures, with the word such as million that follows an amount of money; None: they are none."""
    for pattern, say in _FORMS:
        if (found := pattern.fullmatch(core)) is not None and _short(core):
            return say(found, scale) if say is _money else say(found)
    return None


def _short(core: str) -> bool:
    return max(map(len, re.findall(r"\d+", core.replace(",", "")))) <= _LONGEST


def _amount(figures: str) -> str:
    whole, _, fraction = figures.replace(",", "").partition(".")
    return cardinal(int(whole)) + (f" point {_digits(fraction)}" if fraction else "")


def _digits(figures: str) -> str:
    return " ".join(_ONES[int(figure)] for figure in figures if figure.isdecimal())


def _money(found: re.Match, scale: str) -> str:
    sign, amount = found.groups()
    one, many, cent, cents = _COINS[sign]
    whole, _, small = amount.partition(".")
    if scale or (small and len(small) != 2):
        return f"{_amount(amount)} {scale} {many}".replace("  ", " ")
    said = f"{_amount(whole)} {one if whole == '1' else many}"
    if not int(small or 0):
        return said
    return f"{said} and {cardinal(int(small))} {cent if int(small) == 1 else cents}"


def _year(found: re.Match) -> str:
    century, rest = int(found[1]), int(found[2])
    if century % 10 == 0 and rest < 10:  # two thousand five
        return cardinal(100 * century + rest)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def _time(found: re.Match) -> str:
    hour, minute = cardinal(int(found[1])), int(found[2])
    if not minute:
        return f"{hour} o'clock"
    return f"{hour} {'oh ' if minute < 10 else ''}{cardinal(minute)}"


def _decade(found: re.Match) -> str:
    tens = _TENS[int(found[2]) - 2][:-1] + "ies"
    return f"{cardinal(int(found[1]))} {tens}" if found[1] else tens


_FORMS: list[tuple[re.Pattern[str], Callable[..., str]]] = [
    (re.compile(pattern, re.ASCII), say)
    for pattern, say in (
        (rf"([$€£])({_AMOUNT})", _money),
        (rf"({_AMOUNT})%", lambda found: f"{_amount(found[1])} percent"),
        (r"(\d\d?):([0-5]\d)", _time),
        (r"(\d+)(?:st|nd|rd|th)", lambda found: ordinal(int(found[1]))),
        (r"(1\d|20)?([2-9])0s", _decade),
        (r"(1[3-9]|20)(\d\d)", _year),
        (r"0\d+|(?!\d+000$)\d{7,}|\d+(?:-\d+)+", lambda found: _digits(found[0])),
        (rf"({_AMOUNT})", lambda found: _amount(found[1])),
        (rf"({_AMOUNT})-(\D+)", lambda found: f"{_amount(found[1])}-{found[2]}"),
    )
]

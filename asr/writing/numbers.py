"""English number words as figures: "twenty five" -> 25, "nineteen eighty four" -> 1984, "third" -> 3rd."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL = {word: value for value, word in enumerate(_ONES.split())} | {word: 10 * i for i, word in enumerate(_TENS, 2)}
LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_IRREGULAR |= {"twelve": "twelfth", "zero": "zeroth"} | {word: word[:-1] + "ieth" for word in _TENS}
ORDINALS = {_IRREGULAR.get(word, word + "th"): word for word in (*SMALL, "hundred", *LARGE)}
_DECADES = {word[:-1] + "ies": f"{value}s" for word, value in SMALL.items() if word in _TENS}
_FIGURES = re.compile(r"\d+(\.\d+)?")
_LONGEST = 15  # figures beyond which no word multiplies a number


@dataclass
class Number:
    """A number that begins at a word, and how it is written."""

    figures: str
    end: int  # the word after it
    ordinal: bool = False

    def __str__(self) -> str:
        return self.figures + (ordinal_suffix(self.figures) if self.ordinal else "")


def write_figures(words: list[str]) -> list[str]:
    """Words with figures for number words. Numbers that follow each other become one, as in years and telephone numbers
    ("five five five one two" is 55512): how they were grouped is not heard.
    """
    written: list[str] = []
    joins = False  # the last word written is a number that the next one may be joined to
    i = 0
    while i < len(words):
        alone = words[i] in ("oh", "o") and not (joins and read_number(words, i + 1))
        number = None if alone else read_number(words, i)
        word, i = (words[i], i + 1) if number is None else (str(number), number.end)
        figures = re.fullmatch(r"\d+(s|st|nd|rd|th)?", word)
        if figures and joins:
            written[-1] += word
            if figures[1] in ("st", "nd", "rd", "th"):
                written[-1] = written[-1][:-2] + ordinal_suffix(written[-1][:-2])
        else:
            written.append(word)
        joins = bool(figures) and not figures[1]
    return written


def read_number(words: list[str], i: int) -> Number | None:
    """The longest number that begins at word i, of words in lower case."""
    total, figures, end, limit = 0, "", i, 10**18
    while (part := _hundreds(words, end, article=end == i)) is not None:
        large = _large(words, part.end)
        if large is None or part.ordinal:
            whole, point, fraction = part.figures.partition(".")
            if total and not 0 < int(whole) < min(limit, 1000):
                break
            return Number(f"{total + int(whole)}{point}{fraction}" if total else part.figures, part.end, part.ordinal)
        scale, ordinal = large
        if scale >= limit or len(part.figures) > _LONGEST:
            break
        total, limit, end = total + _times(part.figures, scale), scale, part.end + 1
        figures = str(total)
        if ordinal:
            return Number(figures, end, True)
        if words[end : end + 1] == ["and"] and (after := _hundreds(words, end + 1)) is not None:
            if "." in after.figures or after.figures == "0" or int(after.figures) > 99 or _large(words, after.end):
                break
            return Number(str(total + int(after.figures)), after.end, after.ordinal)
    return Number(figures, end) if figures else None


def _hundreds(words: list[str], i: int, article: bool = True) -> Number | None:
    """A number below a thousand, or tens of hundreds as in nineteen hundred, or figures."""
    if article and words[i : i + 1] in (["a"], ["an"]) and i + 1 < len(words):
        following = ORDINALS.get(words[i + 1], words[i + 1])
        if following != "hundred" and following not in LARGE:
            return None
        small = Number("1", i + 1)
    elif (found := _small(words, i)) is None:
        return None
    else:
        small = found
    if small.ordinal or small.end == len(words) or len(small.figures) > 2:
        return small
    if ORDINALS.get(words[small.end], words[small.end]) != "hundred":
        return small
    hundreds = Number(small.figures + "00", small.end + 1, words[small.end] in ORDINALS)
    if hundreds.ordinal:
        return hundreds
    begin = hundreds.end + (words[hundreds.end : hundreds.end + 1] == ["and"])
    rest = _small(words, begin)
    whole, point, fraction = ("", "", "") if rest is None else rest.figures.partition(".")
    if rest is None or len(whole) > 2 or int(whole) == 0 or words[rest.end : rest.end + 1] == ["hundred"]:
        return hundreds
    return Number(f"{int(hundreds.figures) + int(whole)}{point}{fraction}", rest.end, rest.ordinal)


def _small(words: list[str], i: int) -> Number | None:
    """A number below a hundred in words, with what follows "point"; figures as they stand; oh."""
    if i >= len(words):
        return None
    word = words[i]
    if word in ("oh", "o"):
        return Number("0", i + 1)
    if word in _DECADES:
        return None
    ordinal = word in ORDINALS and ORDINALS[word] in SMALL
    word = ORDINALS[word] if ordinal else word
    if _FIGURES.fullmatch(word):
        number = Number(word, i + 1)
    elif word not in SMALL:
        return None
    else:
        number = Number(str(SMALL[word]), i + 1, ordinal)
        unit = words[i + 1] if word in _TENS and not ordinal and i + 1 < len(words) else ""
        value = SMALL.get(ORDINALS.get(unit, unit), 0)
        if 1 <= value <= 9:
            number = Number(str(SMALL[word] + value), i + 2, unit in ORDINALS)
    return number if number.ordinal or "." in number.figures else _with_fraction(words, number)


def _with_fraction(words: list[str], number: Number) -> Number:
    """The number with the digits that follow "point"."""
    if words[number.end : number.end + 1] != ["point"]:
        return number
    end, digits = number.end + 1, ""
    while end < len(words) and (words[end].isdecimal() or SMALL.get(words[end], 10) < 10 or words[end] == "oh"):
        digits += words[end] if words[end].isdecimal() else str(SMALL.get(words[end], 0))
        end += 1
    return Number(f"{number.figures}.{digits}", end) if digits else number


def _large(words: list[str], i: int) -> tuple[int, bool] | None:
    """What thousand, million, ... multiply with, and whether it is an ordinal."""
    word = words[i] if i < len(words) else ""
    scale = LARGE.get(ORDINALS.get(word, word))
    return None if scale is None else (scale, word in ORDINALS)


def _times(figures: str, scale: int) -> int:
    whole, _, fraction = figures.partition(".")
    return int(whole) * scale + int(fraction or 0) * scale // 10 ** len(fraction)


def ordinal_suffix(figures: str) -> str:
    """What ends the ordinal of figures: st, nd, rd or th."""
    if figures[-2:-1] == "1":
        return "th"
    return {"1": "st", "2": "nd", "3": "rd"}.get(figures[-1:], "th")


def decade(word: str) -> str:
    """`eighties` -> `80s`; other words as they are."""
    return _DECADES.get(word, word)

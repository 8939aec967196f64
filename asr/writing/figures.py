"""Number words as people write them: "twenty three apples" -> 23 apples, "two dollars fifty" -> $2.50.

Numbers are read by `asr.writing.numbers`; here is where one ends and the next begins, and how each is written. Those
below ten stay words ("one of them", "the first time"), unless they are counted in units, stand beside a larger one, or
are said digit by digit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from asr.writing.numbers import LARGE, ORDINALS, SMALL, decade, ordinal_suffix, read_number
from asr.writing.tokens import edges

Span = tuple[int, int, str]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


CURRENCIES = {"dollar": "$", "dollars": "$", "euro": "€", "euros": "€", "pound": "£", "pounds": "£"}
_CENTS = _set("cent cents penny pence")
_HALVES = _set("am pm a.m p.m")  # of a day
_UNITS = _set(
    """cent cents pence dollar dollars euro euros pound pounds percent degrees o'clock ounce ounces oz gram grams
    kilogram kilograms kilo kilos ton tons tonne tonnes inch inches millimetre millimetres millimeter millimeters
    centimetre centimetres centimeter centimeters metre metres meter meters kilometre kilometres kilometer kilometers
    litre litres liter liters millilitres milliliters volt volts watt watts kilowatts hertz kilohertz megahertz
    gigahertz bit bits byte bytes kilobytes megabytes gigabytes terabytes"""
)
_COUNTED = _set("number numbers press dial page chapter section version room channel step option level line extension")
_MONTHS = _set("january february march april may june july august september october november december")
_VERBS = {"may", "march"}  # months that are other words too
_BEFORE_MONTHS = _set(
    "on of in by until till since from before after monday tuesday wednesday thursday friday saturday sunday"
)
_BEFORE_TIMES = _set("at by until till before after around about since")
_BEFORE_PRONOUNS = _set("this that the which each every any no some only another last first next other")
_AFTER_MONEY = _set("a an each per for and or to in on at the from is was but please apiece more less")
_DIGITS = {word: str(value) for word, value in SMALL.items() if value < 10} | {"oh": "0", "o": "0"}
_REPEATS = {"double": 2, "triple": 3}
_GOES_ON = (
    {*SMALL, *ORDINALS, *LARGE, *_DIGITS, *_REPEATS, *CURRENCIES, *_CENTS, "hundred"}
    | _MONTHS
    | _set("and a an point to or by of per p")
)


@dataclass(frozen=True)
class _Phrase:
    """Words that no mark parts. "Thirty-day" is two of them: `texts` in lower case, and of which `words` they are."""

    texts: list[str]
    words: list[int]
    capitals: list[bool]
    before: str

    def at(self, i: int) -> str:
        """Text i, or the one before the phrase, or nothing."""
        return self.before if i == -1 else self.texts[i] if 0 <= i < len(self.texts) else ""


@dataclass(frozen=True)
class _Number:
    """What is read in texts `[start, end)`.

    Attributes:
        figures: of it.
        ordinal: whether it is one.
        digits: it was said as digits, and may be one of a row of them.
        settled: it is written in figures wherever it stands.
    """

    start: int
    end: int
    figures: str
    ordinal: bool = False
    digits: bool = False
    settled: bool = False

    @property
    def value(self) -> float:
        return float(self.figures)


def write(words: Sequence[str], before: str = "") -> list[Span]:
    """Which words `[start, end)` become what; a word or mark before them, if there is one, is only looked at."""
    spans: list[Span] = []
    texts, owners, capitals = [], [], []

    def close() -> None:
        nonlocal texts, owners, capitals, before
        spans.extend(_spans(_Phrase(texts, owners, capitals, before), words))
        texts, owners, capitals, before = [], [], [], ""

    before = edges(before)[1].lower() if not edges(before)[2] else ""
    for i, word in enumerate(words):
        lead, core, trail = edges(word)
        if lead:
            close()
        parts = core.lower().split("-")
        parts = parts if all(parts) and (parts[0] in SMALL or parts[0] in _DIGITS) else [core.lower()]
        texts, owners = [*texts, *parts], [*owners, *[i] * len(parts)]
        capitals += [core[:1].isupper()] * len(parts)
        if trail:
            close()
    close()
    return spans


def goes_on(word: str) -> bool:
    """Whether what becomes of a word may depend on those after it."""
    core = edges(word)[1].lower()
    return any(part in _GOES_ON or part[:1].isdigit() for part in core.split("-"))


def _spans(phrase: _Phrase, words: Sequence[str]) -> Iterator[Span]:
    for number in _with_units(phrase, _in_figures(phrase, list(_numbers(phrase)))):
        first, last = phrase.words[number.start], phrase.words[number.end - 1]
        if number.start and phrase.words[number.start - 1] == first:
            continue  # it begins within a word
        rest = phrase.texts[number.end : number.end + phrase.words[number.end :].count(last)]
        yield first, last + 1, edges(words[first])[0] + "-".join([number.figures, *rest]) + edges(words[last])[2]


def _numbers(phrase: _Phrase) -> Iterator[_Number]:
    """All numbers, those that belong together as one."""
    i = 0
    while i < len(phrase.texts):
        run: list[_Number] = []
        while (number := _number(phrase, i, bool(run))) is not None:
            run.append(number)
            i = number.end
        while run:
            number, taken = _first_of(phrase, run)
            yield from [number] * (number is not None)
            run = run[taken:]
        i += 1


def _number(phrase: _Phrase, i: int, inside: bool) -> _Number | None:
    """The number that begins at text i, among others or not."""
    text, following = phrase.at(i), phrase.at(i + 1)
    digit = _DIGITS.get(following)
    if text in _REPEATS and digit is not None and (inside or phrase.at(i + 2) in _DIGITS):
        return _Number(i, i + 2, digit * _REPEATS[text], digits=True)
    if text in ("oh", "o") and not inside and (digit is None or phrase.at(i + 2) not in _DIGITS):
        return None
    if text == "one" and not inside and phrase.at(i - 1) in _BEFORE_PRONOUNS:
        return None
    if phrase.at(i - 1) in ("past", "to") and phrase.at(i - 2) in ("half", "quarter"):
        return None
    number = read_number(phrase.texts, i)
    if number is None or (text in ("a", "an") and number.end - i <= 2):
        return None
    return _Number(i, number.end, number.figures, number.ordinal, len(number.figures) == 1 and not number.ordinal)


def _first_of(phrase: _Phrase, run: Sequence[_Number]) -> tuple[_Number | None, int]:
    """The first of numbers that follow each other, and how many of these it is made of; None: they stay words."""
    first, month = run[0], _is_month(phrase, run[0].start - 1)
    if month and first.value in range(1, 32):
        return replace(first, settled=True), 1
    for read in (_clock, _spelled, _year, _pair):
        if (found := read(phrase, run)) is not None:
            return found
    if len(run) > 1 and run[1].ordinal and not first.ordinal:  # a fraction: one fifth
        return None, 2
    following = phrase.at(first.end)
    if decade(following) != following and first.value in range(11, 21):
        return _Number(first.start, first.end + 1, first.figures + decade(following), settled=True), 1
    return first, 1


def _spelled(phrase: _Phrase, run: Sequence[_Number]) -> tuple[_Number, int] | None:
    """Three digits or more, or two after a zero, and what else is said of a telephone number."""
    count = next((k for k, number in enumerate(run) if not number.digits), len(run))
    figures = "".join(number.figures for number in run[:count])
    if len(figures) < 2 or (len(figures) < 3 and figures[0] != "0"):
        return None
    while count < len(run) and len(run[count].figures) == 2 and not run[count].ordinal:
        figures, count = figures + run[count].figures, count + 1
    return _Number(run[0].start, run[count - 1].end, figures, settled=True), count


def _year(phrase: _Phrase, run: Sequence[_Number]) -> tuple[_Number, int] | None:
    """Nineteen eighty four, nineteen oh eight, ten sixty six."""
    tail, count = _two_digits(run)
    if not tail or run[0].value not in range(10, 21) or (run[0].value <= 12 and int(tail) < 60):
        return None
    return _Number(run[0].start, run[count - 1].end, run[0].figures + tail, settled=True), count


def _clock(phrase: _Phrase, run: Sequence[_Number]) -> tuple[_Number, int] | None:
    """Five thirty, after "at" and the like or before "p m"; ten thirty anywhere."""
    tail, count = _two_digits(run)
    if not tail or run[0].value not in range(1, 13) or int(tail) >= 60:
        return None
    start, end = run[0].start, run[count - 1].end
    told = phrase.at(start - 1) in _BEFORE_TIMES or (run[0].value >= 10 and phrase.at(start - 1) not in _COUNTED)
    if not _half_of_day(phrase, end) and not (told and count == len(run) and phrase.at(end) not in _UNITS):
        return None
    return _Number(start, end, f"{run[0].figures}:{tail}", settled=True), count


def _pair(phrase: _Phrase, run: Sequence[_Number]) -> tuple[_Number, int] | None:
    """Three sixty, extension twelve thirty four."""
    tail, count = _two_digits(run)
    named = phrase.at(run[0].start - 1) in _COUNTED
    if not tail or count != len(run) or run[0].value not in range(1, 100 if named else 10):
        return None
    return _Number(run[0].start, run[count - 1].end, run[0].figures + tail, settled=True), count


def _two_digits(run: Sequence[_Number]) -> tuple[str, int]:
    """The two digits that follow the first number, as in eighty four or oh eight, and where they end; or none."""
    if len(run) < 2 or run[0].ordinal or run[1].ordinal:
        return "", 0
    if len(run[1].figures) == 2 and run[1].figures.isdecimal():
        return run[1].figures, 2
    if len(run) > 2 and run[1].figures == "0" and len(run[2].figures) == 1 and not run[2].ordinal:
        return "0" + run[2].figures, 3
    return "", 0


def _in_figures(phrase: _Phrase, numbers: Sequence[_Number]) -> Iterator[_Number]:
    """Those that are not left as words, as they are written."""
    shown = [_is_large(number) or _is_counted(phrase, number) for number in numbers]
    for k, number in enumerate(numbers):
        near = [other for other in (k - 1, k + 1) if 0 <= other < len(numbers) and shown[other]]
        if shown[k] or any(_linked(phrase, numbers[min(k, other)], numbers[max(k, other)]) for other in near):
            shown[k] = True
            yield replace(number, figures=_written(phrase, number))


def _is_large(number: _Number) -> bool:
    return number.settled or number.value >= 10 or "." in number.figures


def _linked(phrase: _Phrase, one: _Number, other: _Number) -> bool:
    """Whether two numbers are written alike: they follow each other, or "to", "or" or "by" is between them."""
    words = phrase.texts[one.end : other.start]
    between = words == ["and"] and phrase.at(one.start - 1) == "between"
    return (between or words in ([], ["to"], ["or"], ["by"])) and not one.ordinal and not other.ordinal


def _is_counted(phrase: _Phrase, number: _Number) -> bool:
    """Whether a number below ten is written as a figure."""
    after = phrase.at(number.end)
    if number.ordinal:
        return after == "of" and phrase.at(number.end + 1) in _MONTHS
    if after in _UNITS or (after == "per" and phrase.at(number.end + 1) == "cent"):
        return True
    return _half_of_day(phrase, number.end) or phrase.at(number.start - 1) in _COUNTED


def _is_month(phrase: _Phrase, i: int) -> bool:
    text = phrase.at(i)
    if text not in _VERBS:
        return text in _MONTHS
    return (i >= 0 and phrase.capitals[i]) or phrase.at(i - 1) in _BEFORE_MONTHS


def _half_of_day(phrase: _Phrase, i: int) -> bool:
    """Whether a.m. or p.m. stands at text i."""
    return phrase.at(i) in _HALVES or (phrase.at(i) in ("a", "p") and phrase.at(i + 1) == "m")


def _written(phrase: _Phrase, number: _Number) -> str:
    """25th, 2.6 million, 250,000; a single text that is figures already stays as it is."""
    if number.settled or (number.end - number.start == 1 and phrase.texts[number.start].isdecimal()):
        return number.figures + (ordinal_suffix(number.figures) if number.ordinal else "")
    whole, point, fraction = number.figures.partition(".")
    scale = LARGE.get(phrase.texts[number.end - 1], 1)
    if scale >= 10**6 and int(whole) < 1000 * scale:
        rest = str(int(whole) % scale).zfill(len(str(scale)) - 1).rstrip("0")
        return f"{int(whole) // scale}{'.' * bool(rest)}{rest} {phrase.texts[number.end - 1]}"
    grouped = f"{int(whole):,}" if int(whole) >= 10_000 else whole
    return grouped + point + fraction + (ordinal_suffix(whole) if number.ordinal else "")


def _with_units(phrase: _Phrase, numbers: Iterator[_Number]) -> Iterator[_Number]:
    """Numbers with the currency, per cent or half of the day that follows them."""
    waiting = deque(numbers)
    while waiting:
        number = waiting.popleft()
        end, unit = number.end, phrase.at(number.end)
        if unit == "percent" or phrase.texts[end : end + 2] == ["per", "cent"]:
            yield replace(number, figures=f"{number.figures}%", end=end + (1 if unit == "percent" else 2))
        elif unit in ("a", "p") and _half_of_day(phrase, end):
            yield replace(number, figures=f"{number.figures} {unit}.m.", end=end + 2)
        elif unit in CURRENCIES and not number.ordinal:
            small = _small_money(phrase, end + 1, waiting[0]) if waiting else None
            if small is not None and number.figures.isdecimal():
                waiting.popleft()
                yield replace(number, figures=f"{CURRENCIES[unit]}{number.figures}.{small.figures:0>2}", end=small.end)
            elif CURRENCIES[unit] == "£":  # or the weight
                yield number
            else:
                yield replace(number, figures=f"{CURRENCIES[unit]}{number.figures}", end=end + 1)
        else:
            yield number


def _small_money(phrase: _Phrase, i: int, number: _Number) -> _Number | None:
    """The number, if it is the cents, with or without that word, of an amount whose large coins end before text i."""
    if not number.figures.isdecimal() or not 0 < number.value < 100 or number.ordinal:
        return None
    if phrase.at(number.end) in _CENTS and (number.start == i or phrase.texts[i : number.start] == ["and"]):
        return replace(number, end=number.end + 1)
    ends = number.end == len(phrase.texts) or phrase.at(number.end) in _AFTER_MONEY
    return number if number.start == i and ends and number.value >= 10 else None

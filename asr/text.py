"""The normaliser of texts that are trained on and strictly compared, for every stage and every peer alike."""

import re
import unicodedata
from collections.abc import Iterable

DIGIT_LETTERS = 4  # a digit is spoken as a word of about four letters
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ‛′`´＇", "'"))
_SPELLING = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)


def normalise(text: str) -> str:
    """Bring a text to the form in which words are compared: a-z, apostrophes inside words and single spaces.

    In this order: typographic apostrophes become '; accents are folded to ASCII (NFKD, and the few letters that it
    leaves, such as æ); lower case; every digit becomes its word ("425" is "four two five"); everything but letters,
    apostrophes and spaces becomes a space; apostrophes that do not stand between two letters (quotes) are dropped; runs
    of spaces become one, none at the ends.
    """
    text = text.translate(_APOSTROPHES).lower()
    text = unicodedata.normalize("NFKD", text).lower().translate(_SPELLING)
    text = "".join(character for character in text if not unicodedata.combining(character))
    text = "".join(_as_word(character) for character in text)
    text = re.sub(r"[^a-z']", " ", text)
    text = re.sub(r"'+", "'", text)
    text = re.sub(r"(?<![a-z])'|'(?![a-z])", "", text)
    return " ".join(text.split())


def comparable(word: str) -> str:
    """A word in the form in which it is looked for among others; in other alphabets than a-z, in lower case."""
    return normalise(word) or word.casefold()


def plain_letters(text: str) -> str:
    """A text in lower case with Latin letters folded to ASCII as by `normalise`; other scripts keep their accents."""
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES).lower()).lower().translate(_SPELLING)
    folded: list[str] = []
    for character in text:
        base = unicodedata.normalize("NFKD", character)
        if unicodedata.combining(character) and folded and folded[-1].isascii():
            continue
        digit = unicodedata.digit(character, None)
        folded.append(base[0] if base[0].isascii() else character if digit is None else str(digit))
    return "".join(folded)


def _single_spaces(text: str) -> str:
    return " ".join(text.split())


TEXT_FORMS = {  # `data.text`: how a model's training texts were written, and so how what it writes is strictly compared
    "normalised": normalise,
    "lower": lambda text: _single_spaces(text).lower(),
    "as_written": _single_spaces,
}


def text_form(alphabet: Iterable[str]) -> str:
    """The name of the form (of `TEXT_FORMS`) in which texts of an alphabet's characters are written."""
    letters = set(alphabet)
    if letters <= set("abcdefghijklmnopqrstuvwxyz' "):
        return "normalised"
    return "lower" if all(letter == letter.lower() for letter in letters) else "as_written"


def letter_count(text: str) -> int:
    """Letters of a text, a digit counting as a spoken word."""
    return sum(DIGIT_LETTERS if character.isdigit() else character.isalpha() for character in text)


def _as_word(character: str) -> str:
    value = unicodedata.digit(character, None)
    return character if value is None else f" {_DIGITS[value]} "


def printable(text: str) -> str:
    """A name that somebody else has chosen, fit for a terminal: its control and format characters, which could move the
    cursor or hide what follows, are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)

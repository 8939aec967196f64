"""Word and character error rates of a hypothesis against a reference."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import ModuleType

from asr.errors import AsrError
from asr.text import normalise

Form = Callable[[str], str]  # how both texts are written before they are compared


class EmptyReference(AsrError):
    """A text of which nothing is left to compare: counted, its errors would all be insertions, or none."""


@dataclass(frozen=True)
class ErrorRate:
    """Counted errors, of one utterance or (added up with +) of many.

    Attributes:
        words: words in the reference.
        substitutions: words that were taken for others.
        deletions: words of the reference that are missing in the hypothesis.
        insertions: words of the hypothesis that are not in the reference.
        characters: characters in the reference, with the spaces between words.
        character_errors: characters substituted, deleted or inserted.
    """

    words: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    characters: int = 0
    character_errors: int = 0

    def __add__(self, other: "ErrorRate") -> "ErrorRate":
        if not isinstance(other, ErrorRate):
            return NotImplemented
        return ErrorRate(**{name: count + getattr(other, name) for name, count in asdict(self).items()})

    @property
    def word_errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float:
        """Word errors in percent of the reference's words; with no words, 0 if there are no errors, else 100."""
        return _percent(self.word_errors, self.words)

    @property
    def cer(self) -> float:
        """Character errors in percent of the reference's characters; with none, 0 if there are no errors, else 100."""
        return _percent(self.character_errors, self.characters)

    def as_dict(self) -> dict[str, int | float]:
        """The counts and both rates (percent), by name."""
        return {**asdict(self), "wer": self.wer, "cer": self.cer}


def error_rate(reference: str, hypothesis: str, form: Form = normalise) -> ErrorRate:
    """Count the errors of a hypothesis after both texts were brought to a form.

    Raises:
        EmptyReference: nothing is left of a reference in that form.
        AsrError: jiwer, which counts them, is not installed.
    """
    jiwer, said = _jiwer(), reference
    reference, hypothesis = form(reference), form(hypothesis)
    if said.strip() and not reference:
        raise EmptyReference(f"nothing is left to compare of its text {said!r}: no letters of the model's alphabet")
    if not reference:
        return ErrorRate(insertions=len(hypothesis.split()), character_errors=len(hypothesis))
    words = jiwer.process_words(reference, hypothesis)
    characters = jiwer.process_characters(reference, hypothesis)
    return ErrorRate(
        words=len(reference.split()),
        substitutions=words.substitutions,
        deletions=words.deletions,
        insertions=words.insertions,
        characters=len(reference),
        character_errors=characters.substitutions + characters.deletions + characters.insertions,
    )


def _percent(errors: int, total: int) -> float:
    if total == 0:
        return 100.0 if errors else 0.0
    return 100.0 * errors / total


def _jiwer() -> ModuleType:
    try:
        import jiwer
    except ImportError as error:
        raise AsrError("error rates need the package jiwer: pip install jiwer") from error
    return jiwer

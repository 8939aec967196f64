"""Normalised texts and counted errors."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import AsrError
from asr.evaluation.english import spoken_form
from asr.evaluation.wer import EmptyReference, ErrorRate, error_rate
from asr.text import TEXT_FORMS, normalise, text_form

sentences = st.lists(st.sampled_from(["a", "the", "cat", "sat", "it's", "on"]), max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", "hello world"),
        ("It’s  John`s", "it's john's"),
        ("425", "four two five"),
        ("room 4b", "room four b"),
        ("٣ and ²", "three and two"),
        ("Café naïve Ångström", "cafe naive angstrom"),
        ("Straße, Æsop, İstanbul", "strasse aesop istanbul"),
        ("'quoted' and ''twice''", "quoted and twice"),
        ("the dogs' 'tis o'clock", "the dogs tis o'clock"),
        ("rock 'n' roll", "rock n roll"),
        ("well-known\tand\nlong…", "well known and long"),
        ("don''t", "don't"),
        ("日本語 — ♥", ""),
        ("", ""),
        ("  ' ", ""),
    ],
)
def test_normalised_text(text: str, expected: str):
    assert normalise(text) == expected


@given(st.text())
def test_normalised_text_is_plain_and_stable(text: str):
    plain = normalise(text)
    assert set(plain) <= set("abcdefghijklmnopqrstuvwxyz' ")
    assert plain == " ".join(plain.split())
    assert normalise(plain) == plain


def test_counts_of_a_known_case():
    rate = error_rate("Cats sit on the old mat.", "dogs sit on old mat today")
    assert (rate.words, rate.substitutions, rate.deletions, rate.insertions) == (6, 1, 1, 1)
    assert rate.wer == pytest.approx(50.0)
    assert rate.characters == len("cats sit on the old mat")


def test_numbers_and_case_do_not_count():
    assert error_rate("Flight 42, it's LATE", "flight four two it’s late").word_errors == 0


@pytest.mark.parametrize(
    ("reference", "hypothesis", "insertions", "percent"), [("", "", 0, 0.0), ("", "two words", 2, 100.0)]
)
def test_empty_reference(reference: str, hypothesis: str, insertions: int, percent: float):
    rate = error_rate(reference, hypothesis)
    assert (rate.words, rate.insertions) == (0, insertions)
    assert rate.wer == rate.cer == percent


@pytest.mark.parametrize("reference", ["...", "Привет, мир", "[laughter]"])
def test_a_reference_of_which_nothing_is_left_is_an_error(reference):
    """Counted, it would be free of errors whatever was heard."""
    form = spoken_form if reference.startswith("[") else normalise
    with pytest.raises(EmptyReference, match="nothing is left to compare of its text"):
        error_rate(reference, "привет мир", form)


def test_texts_are_compared_in_the_form_in_which_a_model_writes():
    lower = TEXT_FORMS["lower"]
    assert error_rate("Привет мир", "привет мир", lower).word_errors == 0
    assert error_rate("Привет мир", "привет мор", lower).wer == 50.0
    assert text_form("abc' ") == "normalised"
    assert text_form("абв ") == "lower"
    assert text_form("абвА. ") == "as_written"


def test_empty_hypothesis_deletes_every_word():
    rate = error_rate("one two three", "")
    assert (rate.deletions, rate.wer, rate.cer) == (3, 100.0, 100.0)


@given(sentences)
def test_equal_texts_have_no_errors(text: str):
    rate = error_rate(text, text.upper())
    assert rate.wer == rate.cer == 0.0


@given(sentences, sentences)
def test_counts_agree_with_lengths(reference: str, hypothesis: str):
    rate = error_rate(reference, hypothesis)
    assert rate.words == len(reference.split())
    assert rate.words - rate.deletions + rate.insertions == len(hypothesis.split())
    assert abs(len(reference.split()) - len(hypothesis.split())) <= rate.word_errors
    assert rate.substitutions + rate.deletions <= rate.words
    assert (rate.word_errors == 0) == (reference == hypothesis)


@given(st.lists(st.tuples(sentences, sentences), max_size=4))
def test_totals_add(pairs: list[tuple[str, str]]):
    rates = [error_rate(*pair) for pair in pairs]
    total = sum(rates, ErrorRate())
    for name in ("words", "substitutions", "deletions", "insertions", "characters", "character_errors"):
        assert getattr(total, name) == sum(getattr(rate, name) for rate in rates)


def test_as_dict():
    numbers = error_rate("a b", "a c").as_dict()
    assert numbers["wer"] == 50.0
    assert numbers["words"] == 2
    assert set(numbers) >= {"cer", "substitutions", "deletions", "insertions", "characters", "character_errors"}


def test_missing_jiwer_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(AsrError, match="pip install jiwer"):
        error_rate("a", "a")

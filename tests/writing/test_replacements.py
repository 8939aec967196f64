"""Replacements after recognition: regular expressions that cannot stand still."""

import time

import pytest

from asr.errors import ConfigError
from asr.events import Final, Word
from asr.writing.replacements import LONGEST, parse_replacement
from asr.writing.rewriting import Writing, rewrite
from asr.writing.tokens import join


def write(text: str, *replacements: str) -> str:
    return join(token.text for token in Writing(replacements=replacements).write(text.split()))


@pytest.mark.parametrize(
    ("said", "replacement", "expected"),
    [
        ("We use Cooper netties.", r"\bcooper netties\b => Kubernetes", "We use Kubernetes."),
        ("Art starts here", r"\bart\b => Kunst", "Kunst starts here"),
        ("a US man and us", r"(?-i:\bUS\b) => U.S.", "a U.S. man and us"),
        ("so um I uh went", r"\b(um|uh)\b => ", "so I went"),
        ("one two", r"(\w+) (\w+) => \2 \1", "two one"),
        ("next slide please", r"\s?next slide\s? => \n\n", "\n\nplease"),
        ("say hello comma Anna", r" comma => ,", "say hello, Anna"),
        ("a b", r"x* => y", "a b"),
        ("C plus plus", r"c plus plus => C++", "C++"),
        ("a b", r"\s => \nx\n", "a\nx\nb"),
        ("um a", r"um => ", "a"),
        ("path", r"path => a\\b", "a\\b"),
    ],
)
def test_what_is_written_instead(said, replacement, expected):
    assert write(said, replacement) == expected


def test_they_are_made_one_after_the_other():
    assert write("one", "one => two", "two => three") == "three"


def test_spaces_that_nothing_is_left_around_can_be_replaced():
    assert write("um so um uh went um", r"\bum|uh\b => ", r"\s => -\n", "so => ") == "-\n-\n-\n-\nwent-\n"


def test_what_is_written_for_several_words_lasts_as_long_as_they_do():
    words = tuple(
        Word(text, i, i + 0.5, 0.9 - i / 10) for i, text in enumerate(["we", "use", "cooper", "netties", "now"])
    )
    writing = Writing(replacements=["cooper netties => Kubernetes", "now => right away"])
    (final,) = rewrite(writing, [Final("", 0.0, 5.0, words)])
    assert final.text == "we use Kubernetes right away"
    assert final.words[2] == Word("Kubernetes", 2, 3.5, pytest.approx(0.6))
    assert [word.text for word in final.words[3:]] == ["right", "away"]
    assert (final.words[3].start, final.words[4].end) == (4, 4.5)
    assert final.words[3].end == final.words[4].start


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("only a word", "write PATTERN => TEXT"),
        (" => text", "write PATTERN => TEXT"),
        ("( => x", r"no regular expression of RE2: missing \)"),
        ("(?=a)b => x", "no regular expression of RE2: invalid perl operator"),
        (r"(a) => \2", "there is no group 2 in the pattern"),
        (r"a => \q", r"\\q in the text is none of"),
    ],
)
def test_a_bad_line_is_told(line, told):
    with pytest.raises(ConfigError, match=told) as raised:
        parse_replacement(line)
    assert "\n" not in str(raised.value)


def test_no_pattern_takes_long_and_no_text_grows_without_bounds():
    said = "a" * 2000 + "!"
    begun = time.process_time()
    assert write(said, "(a+)+$ => x", "(a|aa)+$ => x", "(.*a){12}b => x") == said
    grown = write("ab", *[r"(.*) => \1 \1"] * 60)
    assert 2 < len(grown) <= LONGEST
    assert time.process_time() - begun < 20  # for ever, where patterns are tried one way after the other

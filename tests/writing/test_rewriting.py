"""What holds for all words, however they are to be written."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ConfigError
from asr.events import Endpoint, Final, Partial, Word
from asr.recognition.options import StreamOptions
from asr.writing.rewriting import Rewriter, Writing, plain, rewrite
from asr.writing.tokens import join

WORDS = """
twenty three hundred and point oh five million dollars fifty cents percent March third nineteen eighty four at thirty p
m one double seven comma full stop period. New line, paragraph open quote close question mark? hyphen dash the a this
Hello, world. I'm well-known "so" (see) — 25 $2.50 1984, 5:30 cooper netties 3rd
"""
VOCABULARY = WORDS.split()
PHRASES = st.lists(
    st.sampled_from(VOCABULARY) | st.text(min_size=1).filter(lambda text: text.split() == [text]), min_size=1
)
WRITINGS = st.builds(
    Writing,
    numbers=st.sampled_from(["as-heard", "digits", "words"]),
    plain=st.booleans(),
    spoken_punctuation=st.booleans(),
    replacements=st.sampled_from(
        [(), [r"cooper netties => Kubernetes", r"(\w+) world => \1\n\1 x", r"\bthe => ", r"\s => \nx\n"]]
    ),
)


def final(text: str) -> Final:
    words = text.split()
    timed = tuple(Word(text, 0.4 * i, 0.4 * i + 0.3, 0.5 + i % 5 / 10) for i, text in enumerate(words))
    return Final(text, 0.0, 0.4 * len(words), timed)


@settings(max_examples=100, deadline=None)
@given(PHRASES, WRITINGS)
def test_words_of_finals_have_times_in_order_and_are_the_text(words, writing):
    events = rewrite(writing, [final(" ".join(words)), Endpoint(9.0, "pause")])
    assert events[-1] == Endpoint(9.0, "pause")
    for event in events[:-1]:
        assert event.text == join(word.text for word in event.words)
        assert len(event.text.split()) == sum(bool(word.text.strip()) for word in event.words)
        times = [time for word in event.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert event.start <= times[0]
        assert times[-1] <= event.end
        assert all(0.5 <= word.confidence <= 0.9 for word in event.words)


@settings(max_examples=100, deadline=None)
@given(PHRASES, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), WRITINGS)
def test_what_is_stable_in_partials_is_a_prefix_and_never_changes(words, steps, writing):
    rewriter, stable, heard, settled = Rewriter(writing), "", 0, 0
    for more, agreed in steps:
        heard = min(len(words), heard + more)
        settled = min(heard, settled + agreed)
        tail = VOCABULARY[heard % 7 : heard % 7 + more]  # words that may be taken back
        said = Partial(" ".join([*words[:heard], *tail]), " ".join(words[:settled]), 0.0, 1.0)
        for partial in rewriter.partial(said):
            assert partial.text.startswith(partial.stable)
            assert partial.stable.startswith(stable)
            stable = partial.stable


@settings(max_examples=100, deadline=None)
@given(PHRASES, WRITINGS.filter(lambda writing: writing.changes and not writing.replacements))
def test_what_is_stable_in_partials_is_in_the_final(words, writing):
    """Where no word is taken back: settling a beginning early does not change how it is written."""
    rewriter, said = Rewriter(writing), []
    for count in range(len(words) + 1):
        text = " ".join(words[:count])
        said += rewriter.partial(Partial(text, text, 0.0, 1.0))
    whole = join(token.text for token in writing.write(words))
    assert all(whole.startswith(partial.stable) for partial in said)


@given(st.text())
def test_plain_text_is_plain_already(text):
    once = plain(text)
    assert plain(once) == once == once.lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Well, "twenty-three" U.S. men said it\'s so!', "well twenty three us men said it's so"),
        ("It’s 5:30 p.m., $2.50—or 1,200; and/or 555-1234.", "it's 5:30 pm $2.50 or 1,200 and or 555-1234"),
        ("R&D: 50% @home ‘quoted’ rock 'n' roll", "r&d 50% @home quoted rock n roll"),
        ("¿Größe? Ça va… 漢字。", "größe ça va 漢字"),
        ("— …", ""),
    ],
)
def test_plain_text(text, expected):
    assert plain(text) == expected


def test_as_heard_nothing_changes():
    events = [Partial("Twenty comma", "Twenty", 0.0, 1.0), final("Twenty comma,"), Endpoint(1.0, "pause")]
    rewriter = Rewriter(Writing())
    assert rewriter.partial(events[0]) == events[:1]
    assert rewrite(Writing(), events) == events


def test_a_joined_word_begins_with_its_first_ends_with_its_last_and_is_as_sure_as_its_least_sure():
    writing = Writing("digits", spoken_punctuation=True)
    (written,) = rewrite(writing, [final("it cost two dollars fifty full stop")])
    assert written.text == "it cost $2.50."
    assert written.words[2] == Word("$2.50.", pytest.approx(0.8), pytest.approx(2.7), 0.5)


def test_words_of_one_figure_share_its_time():
    (written,) = rewrite(Writing("words", plain=True), [final("1984")])
    assert [word.text for word in written.words] == ["nineteen", "eighty", "four"]
    assert (written.words[0].start, written.words[-1].end) == (0.0, pytest.approx(0.3))
    for before, after in itertools.pairwise(written.words):
        assert before.end == after.start


def test_of_a_final_of_which_nothing_is_left_the_endpoint_stays():
    end = Endpoint(1.0, "pause")
    assert rewrite(Writing(plain=True), [final("— …"), end]) == [end]


def test_a_number_is_settled_when_it_cannot_go_on():
    rewriter = Rewriter(Writing("digits"))
    (partial,) = rewriter.partial(Partial("it cost twenty three", "it cost twenty three", 0, 1))
    assert (partial.text, partial.stable) == ("it cost 23", "it cost")
    (partial,) = rewriter.partial(Partial("it cost twenty three dollars", "it cost twenty three", 0, 1))
    assert (partial.text, partial.stable) == ("it cost $23", "it cost")
    (partial,) = rewriter.partial(Partial("it cost twenty three dollars he", "it cost twenty three dollars he", 0, 1))
    assert (partial.text, partial.stable) == ("it cost $23 he", "it cost $23 he")
    rewriter.begin()
    (partial,) = rewriter.partial(Partial("five p", "", 1, 2))
    assert (partial.text, partial.stable) == ("five p", "")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Hello", "world."], "Hello world."),
        (["Hello", ",", "world"], "Hello, world"),
        (["a", "(", "b", ")"], "a (b)"),
        (["a\n", "b", "\n\n", "c"], "a\nb\n\nc"),
        (["", "a", ""], "a"),
        (["costs", ".5", "...and", "f("], "costs .5 ...and f("),
    ],
)
def test_texts_are_joined_as_their_marks_want_it(texts, expected):
    assert join(texts) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"numbers": "figures"},
        {"plain": 1},
        {"spoken_punctuation": "yes"},
        {"replacements": "a => b"},
        {"replacements": [3]},
    ],
)
def test_impossible_values_are_told(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong)).rstrip("s")):
        Writing(**wrong)


def test_options_take_a_writing_and_nothing_else():
    with pytest.raises(ConfigError, match="writing: must be Writing"):
        StreamOptions(writing="digits")

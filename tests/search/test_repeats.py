"""What is said several times is written as often."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.search.hypothesis import Hypothesis
from asr.search.repeats import Run, find_runs, settle_repeats
from asr.tokenizer import CtcTokenizer, PieceTable

TOKENIZER = CtcTokenizer.train(["ab cd ef ab ef cd"] * 3, 10)
TABLE = PieceTable(["<unk>", "<s>", "</s>", "\u2581ab", "\u2581cd", "\u2581ef"])
WORDS = {"ab": 3, "cd": 4, "ef": 5}
SECONDS = 0.024  # a position


def heard(words: list[str]) -> torch.Tensor:
    """CTC that hears words one after the other, with pauses."""
    path = [0]
    for word in words:
        path += [step for piece in TOKENIZER.encode(word) for step in (piece, 0)] + [0] * 6
    return torch.nn.functional.one_hot(torch.tensor(path), len(TOKENIZER)).float().mul(12).log_softmax(-1)


def settled(written: list[str], log_probs: torch.Tensor) -> list[str]:
    pieces = [WORDS[word] for word in written]
    text = settle_repeats(
        Hypothesis(pieces, [-0.1] * len(pieces)), TABLE, log_probs, TOKENIZER, SECONDS * len(log_probs)
    )
    assert len(text.scores) == len(text.pieces)
    return TABLE.decode(text.pieces).split()


@given(st.permutations(list(WORDS)).map(lambda words: words[:2]), st.integers(1, 5), st.integers(-2, 9))
def test_a_phrase_is_written_as_often_as_it_is_heard(phrase, said, change):
    """However often the decoder has written it, as long as it is more than once, and at most three times too rarely."""
    written = max(2, said + change, said - 3)
    assert settled(phrase * written, heard(phrase * said)) == phrase * said


@given(st.lists(st.sampled_from(list(WORDS)), max_size=6))
def test_what_is_heard_as_it_is_written_stays(words):
    assert settled(words, heard(words)) == words


def test_a_loop_that_is_broken_off_is_cut_with_its_rest():
    assert settled(["ab", "cd", "ef"] * 4 + ["ab", "cd"], heard(["ab", "cd", "ef"])) == ["ab", "cd", "ef"]


def test_what_ctc_does_not_know_is_written_as_often_as_there_is_time_for():
    nothing = torch.zeros(100, len(TOKENIZER))
    nothing[:, 0] = 9
    assert settled(["ab"] * 20, nothing.log_softmax(-1)) == ["ab"] * 20
    assert len(settled(["ab"] * 60, nothing.log_softmax(-1))) == 24  # 2.4 s, two letters each, 20 letters a second


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("a b c", []),
        ("a a a", [Run(0, 1, 3)]),
        ("x a b a b a", [Run(1, 2, 2, 1)]),
        ("a b a b c", [Run(0, 2, 2)]),
        ("a a b b", [Run(0, 1, 2), Run(2, 1, 2)]),
    ],
)
def test_runs(words, runs):
    assert find_runs(words.split()) == runs

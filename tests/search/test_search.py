"""Greedy search, the CTC witness and word times."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.decoder import AttentionDecoder
from asr.search.alignment import Span, align_words, widen
from asr.search.ctc import ctc_greedy
from asr.search.greedy import attention_greedy
from asr.search.rules import NoEarlyEnd
from asr.search.witness import hears_speech, hears_word, recognises, writes
from asr.text import letter_count
from asr.tokenizer import CtcTokenizer, PieceTable
from tests.small import DECODER, randomise

TABLE = PieceTable(["<unk>", "<s>", "</s>", *(f"▁{c}{c}" for c in "abcdefghijklmnopqrstuvwxyz"), *"0123456789!"])


def posteriors(path: list[int], size: int) -> torch.Tensor:
    """Log-probabilities whose best path is `path`."""
    return torch.nn.functional.one_hot(torch.tensor(path), size).float().mul(9).log_softmax(-1)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_ctc_greedy_collapses_repeats_and_drops_blanks(path):
    expected = [p for i, p in enumerate(path) if p != 0 and (i == 0 or path[i - 1] != p)]
    assert ctc_greedy(posteriors(path, 5)) == expected


def test_a_digit_counts_as_a_word():
    assert letter_count("It's 25!") == 3 + 8


def decoder_that_wants_to_end() -> AttentionDecoder:
    """Its best piece is the end, its second best piece 5."""
    decoder = randomise(AttentionDecoder(DECODER), 0)
    with torch.no_grad():
        decoder.embedding.weight.mul_(0.01)
        direction = torch.ones(32)
        decoder.norm.weight.zero_()
        decoder.norm.bias = torch.nn.Parameter(direction)
        decoder.embedding.weight[2], decoder.embedding.weight[5] = direction, direction / 2
    return decoder


def test_the_end_waits_until_half_of_what_ctc_hears_is_written():
    decoder, memory = decoder_that_wants_to_end(), torch.randn(1, 20, 32)
    assert attention_greedy(decoder, TABLE, memory, None, [10.0])[0].pieces == []
    rule = NoEarlyEnd(decoder.config.end, letter_count("abcdefghij"))
    (hypothesis,) = attention_greedy(decoder, TABLE, memory, None, [10.0], [[rule]])
    assert hypothesis.pieces == [5, 5, 5]  # two letters each: six of ten
    assert len(hypothesis.scores) == 3
    assert all(score < 0 for score in hypothesis.scores)


def test_pieces_are_bounded_by_the_length_of_the_utterance():
    decoder, memory = decoder_that_wants_to_end(), torch.randn(1, 20, 32)
    (hypothesis,) = attention_greedy(decoder, TABLE, memory, None, [2.0], [[NoEarlyEnd(decoder.config.end, 1000)]])
    assert len(hypothesis.pieces) == 15  # 6.5 a second, and 2


def test_no_words_where_ctc_hears_blanks_alone():
    posterior = torch.zeros(100)
    assert not hears_speech(posterior)
    posterior[60] = 0.9
    assert hears_speech(posterior)
    assert hears_word(posterior, 55, 58)
    assert not hears_word(posterior, 10, 20)


def test_no_words_where_the_gate_hears_no_speech():
    posterior, speech = torch.full((100,), 0.9), torch.zeros(100)
    assert not hears_speech(posterior, speech)
    assert not hears_word(posterior, 55, 58, speech)
    speech[60] = 0.9
    assert hears_speech(posterior, speech)
    assert hears_word(posterior, 55, 58, speech)
    assert not hears_word(posterior, 10, 20, speech)
    assert not hears_speech(torch.zeros(100), speech)


def test_words_that_ctc_knows_nothing_of_are_not_believed_unless_it_is_sure_that_somebody_speaks():
    faint, sure = torch.full((50,), 0.3), torch.full((50,), 0.99)
    assert not recognises(faint, [0.02, 0.08])
    assert not recognises(faint, [0.02, 0.4])
    assert recognises(faint, [0.4, 0.8])
    assert recognises(sure, [0.02, 0.08])


def test_a_partial_needs_a_piece_that_ctc_writes_or_is_sure_of():
    nothing = posteriors([0, 0, 0], 5)
    assert not writes(nothing)
    assert writes(posteriors([0, 3, 0], 5))
    split = torch.tensor([[0.02, 0.49, 0.49], [0.5, 0.25, 0.25]]).log()
    assert writes(split[:1])
    assert not writes(split[1:])


TOKENIZER = CtcTokenizer.train(["ab cd ef ab ef cd"] * 3, 10)


@given(st.lists(st.sampled_from(["ab", "cd", "ef"]), min_size=1, max_size=6), st.data())
def test_words_are_found_where_they_were_said(words, data):
    path, places = [], []
    for word in words:
        path += [0] * data.draw(st.integers(1, 5))
        places.append(len(path))
        for piece in TOKENIZER.encode(word):
            path += [piece, 0]
    spans = align_words(words, posteriors([*path, 0], len(TOKENIZER)), TOKENIZER)
    for span, place, following in zip(spans, places, [*places[1:], len(path)], strict=True):
        assert place <= span.start < span.end <= following
        assert span.score > 0.5


def test_words_without_letters_and_too_many_words():
    log_probs = posteriors([0, *TOKENIZER.encode("ab"), 0, 0], len(TOKENIZER))
    spans = align_words(["ab", "—"], log_probs, TOKENIZER)
    assert spans[1].start == spans[1].end == spans[0].end
    crowded = align_words(["ab"] * 9, log_probs, TOKENIZER)
    assert len(crowded) == 9
    assert all(0 <= s.start <= s.end <= len(log_probs) for s in crowded)
    assert align_words([], log_probs, TOKENIZER) == []
    assert align_words(["ab"], log_probs[:0], TOKENIZER)[0].score == pytest.approx(0)


@pytest.mark.parametrize(
    ("texts", "word", "spelled"),
    [
        (["ab cd ef"], "AB,", "ab"),
        (["мы едем в лес"], "Едем,", "едем"),
        (["Wir fahren Rad"], "Rad.", "Rad"),
    ],
)
def test_words_are_spelled_as_the_tokenizer_was_trained(texts, word, spelled):
    tokenizer = CtcTokenizer.train(texts * 5, 24)
    assert tokenizer.decode(tokenizer.spell(word)) == spelled


def test_words_reach_as_far_as_their_sound():
    """CTC marks their middle; between two without a pause the quietest position parts them."""
    power = [1e-6] * 10 + [0.1] * 10 + [1e-6] * 10 + [0.2] * 5 + [0.05] + [0.2] * 4 + [1e-6] * 20
    spans = [Span(15, 16, 0.9), Span(32, 33, 0.8), Span(38, 39, 0.7)]
    wide = widen(spans, power)
    assert [(span.start, span.end) for span in wide] == [(10, 20), (30, 35), (35, 40)]
    assert [span.score for span in wide] == [0.9, 0.8, 0.7]


@given(st.lists(st.floats(0, 1), max_size=60), st.lists(st.integers(0, 70), max_size=8))
def test_widened_words_stay_in_order_and_hold_what_ctc_marks(power, edges):
    edges = sorted(min(edge, len(power)) for edge in edges)
    spans = [Span(start, end, 0.5) for start, end in zip(edges[::2], edges[1::2], strict=False)]
    wide = widen(spans, power)
    assert all(w.start <= s.start <= s.end <= w.end for s, w in zip(spans, wide, strict=True))
    assert all(a.end <= b.start for a, b in itertools.pairwise(wide))

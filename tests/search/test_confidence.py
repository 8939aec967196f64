"""Confidence is a probability that grows with what decoder and CTC say of a word."""

import math

from hypothesis import given
from hypothesis import strategies as st

from asr.search.confidence import word_confidence

scores = st.lists(st.floats(-50, 0), min_size=1, max_size=5)


@given(scores, st.floats(0, 1), st.floats(0, 1))
def test_it_grows_with_what_ctc_hears(pieces, one, other):
    less, more = sorted((one, other))
    assert 0 < word_confidence(pieces, less) <= word_confidence(pieces, more) < 1


@given(scores, st.floats(-50, 0), st.floats(0, 1))
def test_it_hangs_on_the_piece_of_which_the_decoder_is_least_sure(pieces, further, heard):
    with_it = word_confidence([*pieces, further], heard)
    assert with_it == min(word_confidence(pieces, heard), word_confidence([further], heard))


def test_words_that_both_hear_are_nearly_sure_and_words_that_neither_does_are_not():
    assert word_confidence([math.log(0.99)] * 2, 0.95) > 0.97
    assert word_confidence([math.log(0.3), math.log(0.9)], 0.1) < 0.5

"""Beam search: what it finds in a small decoder, where all texts can be tried."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.nn.decoder import AttentionDecoder
from asr.search.beam import Path, attention_beam, choose
from asr.search.greedy import attention_greedy
from asr.search.hypothesis import Hypothesis
from asr.search.rules import NoEarlyEnd
from asr.tokenizer import CtcTokenizer
from tests.small import DECODER, TABLE, randomise

SECONDS = 1.2  # nine pieces at most


def decoder_of(seed: int) -> AttentionDecoder:
    return randomise(AttentionDecoder(DECODER), seed)


def memory_of(seed: int, size: int) -> torch.Tensor:
    return torch.randn(1, size, DECODER.d_model, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 30))
def test_one_beam_is_the_best_piece_after_each_other(seed, size):
    decoder, memory = decoder_of(seed), memory_of(seed, size)
    rules = [[NoEarlyEnd(DECODER.end, 6)]]
    ((best, *_),) = attention_beam(decoder, TABLE, memory, None, [SECONDS], 1, rules)
    (greedy,) = attention_greedy(decoder, TABLE, memory, None, [SECONDS], rules)
    assert best.text.pieces == greedy.pieces
    assert best.text.scores == pytest.approx(greedy.scores, abs=1e-4)


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_with_a_beam_for_every_piece_the_likeliest_short_text_is_found(seed):
    """Of all texts of up to two pieces, scored one by one; the bound is two pieces, which the length gives."""
    decoder, memory = decoder_of(seed), memory_of(seed, 12)
    ((best, *_),) = attention_beam(decoder, TABLE, memory, None, [0.0], DECODER.vocabulary - 1)
    scores = {}
    others = [piece for piece in range(DECODER.vocabulary) if piece != DECODER.end]
    for length in range(3):
        texts = list(itertools.product(others, repeat=length))
        fed = torch.tensor([[DECODER.start, *text] for text in texts])
        known = decoder.score(fed, memory.expand(len(texts), -1, -1)).log_softmax(-1)
        said = torch.tensor([[*text, DECODER.end] for text in texts])
        scores |= dict(zip(texts, known.gather(2, said[..., None]).sum((1, 2)).tolist(), strict=True))
    likeliest = max(scores, key=scores.__getitem__)
    assert tuple(best.text.pieces) == likeliest
    assert best.total == pytest.approx(scores[likeliest], abs=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=4), st.integers(0, 99), st.integers(2, 5))
def test_utterances_side_by_side_are_read_as_alone(sizes, seed, beams):
    decoder = decoder_of(seed)
    memories = [memory_of(seed + i, size) for i, size in enumerate(sizes)]
    padded = torch.nn.utils.rnn.pad_sequence([m[0] for m in memories], batch_first=True)
    seconds = [0.06 * size for size in sizes]
    together = attention_beam(decoder, TABLE, padded, torch.tensor(sizes), seconds, beams)
    for paths, memory, length in zip(together, memories, seconds, strict=True):
        (alone,) = attention_beam(decoder, TABLE, memory, None, [length], beams)
        assert paths[0].text.pieces == alone[0].text.pieces
        assert paths[0].total == pytest.approx(alone[0].total, abs=1e-3)
        assert [path.total for path in paths] == sorted((path.total for path in paths), reverse=True)


def test_ctc_has_its_say_in_which_of_the_texts_it_was():
    tokenizer = CtcTokenizer.train(["ag bg", "bh ah", "ag bh"], 8)
    heard = [0, *tokenizer.spell("bg"), 0]
    log_probs = torch.full((len(heard), len(tokenizer)), -20.0)
    log_probs[range(len(heard)), heard] = 0.0
    one, other = (Hypothesis([TABLE.pieces.index(f"\u2581{word}")], [-1.0], 2) for word in ("ag", "bg"))
    assert choose([Path(one, -1.0), Path(other, -1.5)], TABLE, log_probs, tokenizer) is other
    assert choose([Path(one, -1.0), Path(other, -9.0)], TABLE, log_probs, tokenizer) is one

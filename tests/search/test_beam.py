"""Beam search over a small decoder."""

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
def test_totals_are_those_of_whole_texts_and_no_less_than_the_greedy_one(seed):
    decoder, memory = decoder_of(seed), memory_of(seed, 12)

    def total(pieces: list[int]) -> float:
        said = torch.tensor([*pieces, DECODER.end])
        known = decoder.score(torch.tensor([[DECODER.start, *pieces]]), memory)[0].log_softmax(-1)
        return float(known.gather(1, said[:, None]).sum())

    (paths,) = attention_beam(decoder, TABLE, memory, None, [0.0], DECODER.vocabulary - 1)
    for path in paths[:5]:
        assert path.total == pytest.approx(total(path.text.pieces), abs=1e-3)
    (greedy,) = attention_greedy(decoder, TABLE, memory, None, [0.0])
    assert paths[0].total >= total(greedy.pieces) - 1e-3


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

"""The attention decoder: pieces are taken back, the memory grows, and texts are scored row by row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.decoder import AttentionDecoder
from tests.small import DECODER, randomise, small_decoder

DEC = randomise(AttentionDecoder(DECODER), 2)


def memory_and_pieces(seed: int, batch: int, positions: int, pieces: int):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, positions, 32, generator=g), torch.randint(0, 40, (batch, pieces), generator=g)


@given(st.integers(0, 99), st.integers(0, 7))
def test_a_rejected_draft_leaves_no_trace(seed, kept):
    memory, pieces = memory_and_pieces(seed, 1, 9, 8)
    _, state = DEC(pieces, DEC.start(memory))
    state.truncate(kept)
    again, _ = DEC(pieces[:, kept:], state)
    torch.testing.assert_close(again, DEC(pieces, DEC.start(memory))[0][:, kept:], atol=1e-4, rtol=1e-4)


def test_an_extended_memory_equals_one_given_at_once():
    memory, pieces = memory_and_pieces(3, 2, 12, 5)
    state = DEC.start(memory[:, :5])
    DEC.extend(memory[:, 5:], state)
    torch.testing.assert_close(DEC(pieces, state)[0], DEC(pieces, DEC.start(memory))[0], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="padding"):
        DEC.extend(memory, DEC.start(memory, torch.tensor([3, 12])))


def test_padding_and_batch_mates_change_nothing():
    memory, pieces = memory_and_pieces(4, 3, 12, 5)
    together, _ = DEC(pieces, DEC.start(memory, torch.tensor([12, 7, 1])))
    for row, length in enumerate((12, 7, 1)):
        alone, _ = DEC(pieces[row : row + 1], DEC.start(memory[row : row + 1, :length]))
        torch.testing.assert_close(together[row], alone[0], atol=1e-4, rtol=1e-4)


def test_more_pieces_than_announced_are_refused():
    memory, pieces = memory_and_pieces(5, 1, 4, 9)
    with pytest.raises(ValueError, match="do not fit"):
        DEC(pieces, DEC.start(memory, max_pieces=8))


@given(st.integers(0, 20), st.integers(1, 3), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
@torch.no_grad()
def test_beams_share_the_memory_of_their_utterance_and_are_as_texts_of_their_own(seed, beams, sizes, data):
    decoder, g = small_decoder(seed), torch.Generator().manual_seed(seed)
    memory, lengths = torch.randn(len(sizes), max(sizes), 32, generator=g), torch.tensor(sizes)
    first = torch.randint(0, 40, (len(sizes), 2), generator=g)
    _, state = decoder(first, decoder.start(memory, lengths))
    rows = [row for row in range(len(sizes)) for _ in range(beams)]
    state = state.select(rows)
    assert state.memory[0][0].shape[0] == len(sizes)
    second = torch.randint(0, 40, (len(rows), 1), generator=g)
    logits, state = decoder(second, state)
    own, others = decoder.start(memory[rows], lengths[rows]), None
    others = decoder(torch.cat([first[rows], second], 1), own)[0][:, -1:]
    torch.testing.assert_close(logits, others, atol=1e-5, rtol=1e-4)
    kept = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1)))
    fewer = [row * beams + data.draw(st.integers(0, beams - 1)) for row in kept]
    third = torch.randint(0, 40, (len(fewer), 1), generator=g)
    texts = torch.cat([first[rows], second], 1)[fewer]
    alone = decoder(torch.cat([texts, third], 1), decoder.start(memory[kept], lengths[kept]))[0][:, -1:]
    torch.testing.assert_close(decoder(third, state.select(fewer))[0], alone, atol=1e-5, rtol=1e-4)


def test_rows_of_one_utterance_stay_together():
    state = small_decoder().start(torch.randn(2, 5, 32)).select([0, 0, 1, 1])
    with pytest.raises(ValueError, match="each utterance"):
        state.select([0, 2, 1, 3])

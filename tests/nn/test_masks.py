"""Masks say who may see whom; each is checked against its definition, pair by pair."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.masks import FULL_CONTEXT, causal_mask, chunk_mask, combine, padding_mask


@given(st.integers(1, 30), st.integers(1, 9), st.none() | st.integers(0, 20))
def test_chunk_mask_is_its_definition(size, chunk, left):
    position = torch.arange(size)
    mask = chunk_mask(position, position, chunk, left)
    for i in range(size):
        for j in range(size):
            start = i // chunk * chunk
            assert mask[i, j] == (j // chunk <= i // chunk and (left is None or start - j <= left))


def test_chunk_of_one_is_causal_and_full_context_sees_all():
    position = torch.arange(12)
    assert torch.equal(chunk_mask(position, position, 1), causal_mask(position, position))
    assert chunk_mask(position, position, FULL_CONTEXT, 250).all()


def test_padding_and_combination():
    mask = padding_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.tolist() == [[False] * 3, [True, True, False], [True] * 3]
    assert combine(None, None) is None
    assert torch.equal(combine(mask, None, torch.tensor([True, False, True])), mask & torch.tensor([True, False, True]))

"""Masks say who may see whom; each is checked against its definition, pair by pair."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.masks import FULL_CONTEXT, ChunkLayout, causal_mask, chunk_mask, combine, padding_mask


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


@given(st.integers(1, 40), st.integers(1, 9), st.none() | st.integers(0, 20))
def test_layout_without_look_ahead_is_the_chunk_mask(size, chunk, left):
    layout = ChunkLayout.build(size, chunk, 0, left)
    position = torch.arange(size)
    assert torch.equal(layout.index, position)
    assert layout.own.all()
    assert torch.equal(layout.mask, chunk_mask(position, position, min(chunk, size), left))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 9), st.integers(0, 20))
def test_layout_repeats_followers_that_only_their_chunk_sees(size, chunk, look_ahead, left):
    layout = ChunkLayout.build(size, chunk, look_ahead, left)
    chunk = min(chunk, size)
    assert torch.equal(layout.index[layout.own], torch.arange(size))
    for q in range(len(layout.index)):
        start = int(layout.group[q]) * chunk
        assert start <= layout.index[q] < min(start + chunk + look_ahead, size)
        for k in range(len(layout.index)):
            same = layout.group[q] == layout.group[k]
            past = layout.own[k] and layout.index[k] < start and start - layout.index[k] <= left
            assert layout.mask[q, k] == bool(same or past)

"""Masks say who may see whom."""

import torch

from asr.nn.masks import causal_mask, padding_mask


def test_padding_is_what_lies_beyond_a_rows_length():
    assert padding_mask(torch.tensor([0, 2, 3]), 3).tolist() == [[False] * 3, [True, True, False], [True] * 3]


def test_no_key_is_later_than_its_query():
    queries, keys = torch.tensor([[3, 4], [0, 1]]), torch.tensor([[2, 3, 4, 5], [-1, 0, 1, 2]])
    assert causal_mask(queries, keys).tolist() == [[[True, True, False, False], [True, True, True, False]]] * 2

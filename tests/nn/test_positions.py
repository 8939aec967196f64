"""Encodings of position depend on what they should and on nothing else."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.positions import Diagonals, LearnedPositions, RelativeBias, Rotary, relative_bucket


def bucket_by_definition(r: int) -> int:
    distance = abs(r)
    bucket = distance if distance < 16 else min(31, 16 + math.floor(16 * math.log(distance / 16) / math.log(25)))
    return bucket + (32 if r < 0 else 0)


def test_buckets_of_all_distances_are_those_of_the_definition():
    relative = torch.arange(-1500, 1501)
    expected = torch.tensor([bucket_by_definition(r) for r in relative.tolist()])
    assert torch.equal(relative_bucket(relative), expected)


@given(st.integers(-30, 500), st.integers(1, 40), st.integers(1, 40))
def test_bias_by_diagonals_is_bias_by_pairs(offset, queries, keys):
    """So is its gradient: how often each bucket occurs, weighed."""
    bias, g = RelativeBias(3, 64), torch.Generator().manual_seed(queries)
    torch.nn.init.normal_(bias.weight, generator=g)
    bucket = relative_bucket(offset + torch.arange(queries)[None, :, None] - torch.arange(keys))
    by_pairs, by_diagonals = bias(bucket), bias(Diagonals.of(offset, queries, keys, 64, bucket.device)).flip(2)
    assert torch.equal(by_pairs, by_diagonals)
    weighed = torch.randn(by_pairs.shape, generator=g)
    gradients = [torch.autograd.grad((out * weighed).sum(), bias.weight)[0] for out in (by_pairs, by_diagonals)]
    torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-4)


@given(st.integers(0, 10**9), st.integers(0, 500))
def test_rotary_scores_depend_on_distance_alone_even_after_hours(shift, distance):
    """A billion positions are 9 months of stream; angles in float64 stay exact."""
    g = torch.Generator().manual_seed(distance)
    q, k = torch.randn(1, 1, 1, 52, generator=g), torch.randn(1, 1, 1, 52, generator=g)
    rotary = Rotary(32)

    def score(position: int) -> float:
        turned_q = rotary(q, torch.tensor([[position + distance]]))
        return float((turned_q * rotary(k, torch.tensor([[position]]))).sum())

    assert score(shift) == pytest.approx(score(0), abs=1e-4)


def test_rotary_turns_pairs_and_leaves_the_rest():
    x = torch.randn(1, 1, 1, 6)
    out = Rotary(4)(x, torch.tensor([[3]]))[0, 0, 0]
    a, b, c, d, *rest = x[0, 0, 0].tolist()
    second = 3 * 10000**-0.5
    expected = [
        a * math.cos(3) - b * math.sin(3),
        a * math.sin(3) + b * math.cos(3),
        c * math.cos(second) - d * math.sin(second),
        c * math.sin(second) + d * math.cos(second),
        *rest,
    ]
    torch.testing.assert_close(out, torch.tensor(expected))


def test_rotary_notices_positions_that_are_changed_in_place():
    rotary, x, positions = Rotary(4), torch.randn(1, 1, 3, 6), torch.arange(3)[None]
    rotary(x, positions)
    positions += 5
    torch.testing.assert_close(rotary(x, positions), Rotary(4)(x, torch.arange(5, 8)[None]))


def test_learned_positions_are_themselves_at_the_trained_size_and_interpolated_elsewhere():
    grid = LearnedPositions((4, 6), 4)
    assert grid(4, 6) is grid.weight
    assert grid(8, 3).shape == (8, 3, 4)
    with torch.no_grad():
        grid.weight.fill_(2.5)
    torch.testing.assert_close(grid(7, 9), torch.full((7, 9, 4), 2.5))

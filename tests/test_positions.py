"""Encodings of position depend on what they should and on nothing else."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.positions import LearnedPositions, RelativeBias, Rotary, bucket_rows, relative_bucket, sinusoidal


def bucket_by_definition(r: int) -> int:
    distance = abs(r)
    bucket = distance if distance < 16 else min(31, 16 + math.floor(16 * math.log(distance / 16) / math.log(25)))
    return bucket + (32 if r < 0 else 0)


def test_buckets_of_all_distances_are_those_of_the_definition():
    relative = torch.arange(-1500, 1501)
    expected = torch.tensor([bucket_by_definition(r) for r in relative.tolist()])
    assert torch.equal(relative_bucket(relative), expected)


def test_bias_of_indices_and_of_one_hot_rows_is_the_same():
    bias = RelativeBias(3, 64)
    torch.nn.init.normal_(bias.weight)
    bucket = relative_bucket(torch.randint(-600, 600, (2, 5, 7)))
    by_rows = bias(bucket_rows(bucket, 64, bias.weight))
    torch.testing.assert_close(bias(bucket), by_rows)
    by_rows.sum().backward()
    counts = torch.bincount(bucket.flatten(), minlength=64).float()
    torch.testing.assert_close(bias.weight.grad, counts.expand(3, -1))


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


def test_sinusoidal_is_the_formula_of_the_paper():
    out = sinusoidal(torch.tensor([0, 5]), 8)
    assert out[0].tolist() == [0, 1] * 4
    assert out[1, 2].item() == pytest.approx(math.sin(5 / 10000 ** (2 / 8)))
    assert out[1, 3].item() == pytest.approx(math.cos(5 / 10000 ** (2 / 8)))
    with pytest.raises(ValueError, match="even"):
        sinusoidal(torch.tensor([0]), 7)


def test_learned_positions_are_themselves_at_the_trained_size_and_interpolated_elsewhere():
    line, grid = LearnedPositions((8,), 4), LearnedPositions((4, 6), 4)
    assert line() is line.weight
    assert grid(4, 6) is grid.weight
    assert line(16).shape == (16, 4)
    assert grid(8, 3).shape == (8, 3, 4)
    with torch.no_grad():
        grid.weight.fill_(2.5)
    torch.testing.assert_close(grid(7, 9), torch.full((7, 9, 4), 2.5))
    with pytest.raises(ValueError, match="dimensional"):
        grid(5)

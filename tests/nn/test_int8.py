"""Products in int8: close to float32, each row for itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.int8 import COARSE, FINE, Int8Linear, activation_steps
from tests.small import small_decoder

pytestmark = pytest.mark.skipif(
    activation_steps() is None, reason="this build of torch has no int8 products for this processor"
)


def relative_error(x: torch.Tensor, reference: torch.Tensor) -> float:
    return float((x - reference).norm() / reference.norm())


@given(st.integers(0, 99), st.integers(1, 9), st.floats(-4, 4))
def test_products_are_those_of_float32_but_for_rounding(seed, rows, magnitude):
    g = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(2, rows, 64, generator=g) * 10**magnitude, torch.randn(48, 64, generator=g)
    assert relative_error(Int8Linear(weight)(x), x @ weight.T) < 0.03
    bias = torch.randn(48, generator=g)
    torch.testing.assert_close(Int8Linear(weight, bias)(x), Int8Linear(weight)(x) + bias)


@given(st.integers(0, 99), st.integers(2, 20))
def test_a_row_does_not_depend_on_the_others(seed, rows):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 32, generator=g) * torch.logspace(-3, 3, rows)[:, None]
    linear = Int8Linear(torch.randn(24, 32, generator=g))
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


def test_nothing_comes_out_of_nothing():
    assert torch.equal(Int8Linear(torch.randn(16, 8))(torch.zeros(3, 8)), torch.zeros(3, 16))


def test_sums_do_not_overflow():
    """The largest values everywhere: where pairs of products are added in 16 bits, 8-bit activations would saturate."""
    assert activation_steps() in (FINE, COARSE)
    ones = torch.ones(1, 512)
    torch.testing.assert_close(Int8Linear(torch.ones(16, 512))(ones), torch.full((1, 16), 512.0), rtol=0.01, atol=0)
    torch.testing.assert_close(Int8Linear(-torch.ones(16, 512))(ones), torch.full((1, 16), -512.0), rtol=0.01, atol=0)


def test_a_decoder_in_int8_says_nearly_the_same():
    memory, pieces = torch.randn(1, 20, 32), torch.randint(0, 40, (1, 7))
    plain, fast = small_decoder(), small_decoder().to_int8()
    reference = plain(pieces, plain.start(memory))[0]
    assert 0 < relative_error(fast(pieces, fast.start(memory))[0], reference) < 0.1


@pytest.mark.filterwarnings("error")
def test_nobody_is_bothered_with_warnings():
    small_decoder().to_int8()

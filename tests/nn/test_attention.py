"""What is known of attention, stated as tests of the shared core."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from asr.nn.attention import KeyValueCache, MultiHeadAttention, attention
from asr.nn.masks import causal_mask
from asr.nn.positions import RelativeBias, relative_bucket

sizes = st.integers(1, 9)


def random_qkv(seed: int, queries: int, keys: int, d_k: int = 4, d_v: int = 3):
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, d, generator=g) for n, d in ((queries, d_k), (keys, d_k), (keys, d_v)))


@given(st.integers(0, 999), sizes, sizes)
def test_weights_are_a_distribution_over_keys(seed, queries, keys):
    q, k, v = random_qkv(seed, queries, keys)
    _, weights = attention(q, k, v, return_weights=True)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(queries))


@given(st.integers(0, 999), sizes, sizes, st.booleans(), st.booleans())
def test_explicit_and_fused_path_agree(seed, queries, keys, masked, biased):
    q, k, v = random_qkv(seed, queries, keys)
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(queries, keys, generator=g) < 0.5 if masked else None
    bias = torch.randn(queries, keys, generator=g) if biased else None
    explicit, _ = attention(q, k, v, mask=mask, bias=bias, return_weights=True)
    fused = attention(q[None, None], k[None, None], v[None, None], mask=mask, bias=bias)[0, 0]
    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_that_learns_in_float32_is_added_in_half_precision_too(dtype):
    q, k, v = (x.to(dtype) for x in random_qkv(4, 6, 5))
    bias = torch.randn(6, 5, requires_grad=True)
    out = attention(q, k, v, bias=bias)
    with torch.no_grad():
        torch.testing.assert_close(attention(q, k, v, bias=bias), out, atol=0.02, rtol=0.02)
    out.float().sum().backward()
    assert out.dtype == dtype
    assert bias.grad.any()


def test_a_query_that_may_attend_nowhere_yields_zeros():
    q, k, v = random_qkv(0, 3, 5)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    out, weights = attention(q, k, v, mask=mask, return_weights=True)
    assert (out[1] == 0).all()
    assert (weights[1] == 0).all()
    assert (attention(q, k, v, mask=mask)[1] == 0).all()
    assert attention(q, k, v, mask=mask, bias=torch.randn(3, 5)).isfinite().all()


def test_large_beta_picks_one_value_and_zero_beta_averages_all():
    q, k, v = random_qkv(1, 6, 5)
    hard = attention(q, k, v, scale=1e5)
    torch.testing.assert_close(hard, v[(q @ k.T).argmax(-1)])
    soft = attention(q, k, v, scale=0.0)
    torch.testing.assert_close(soft, v.mean(0).expand(6, -1))


def test_default_scale_gives_unit_variance_scores():
    g = torch.Generator().manual_seed(2)
    d_k = 64
    q, k = torch.randn(2000, d_k, generator=g), torch.randn(2000, d_k, generator=g)
    assert ((q @ k.T) / math.sqrt(d_k)).var().item() == pytest.approx(1, abs=0.05)
    small_q, small_k, v = q[:8], k[:8], torch.randn(8, 3, generator=g)
    torch.testing.assert_close(attention(small_q, small_k, v), attention(small_q, small_k, v, scale=1 / math.sqrt(d_k)))


def test_one_key_may_move_every_output_one_query_only_its_own():
    q, k, v = random_qkv(3, 6, 5)
    before = attention(q, k, v)
    other_k = k.clone()
    other_k[2] += 1
    assert ((attention(q, other_k, v) - before).abs().amax(-1) > 1e-6).all()
    other_q = q.clone()
    other_q[2] += 1
    moved = (attention(other_q, k, v) - before).abs().amax(-1) > 1e-6
    assert moved.tolist() == [False, False, True, False, False, False]


@given(st.integers(0, 999), st.floats(1.1, 10))
def test_scaling_a_key_sharpens_towards_its_value(seed, alpha):
    q, k, v = random_qkv(seed, 6, 5)
    towards = (q @ k[2]) > 1e-3  # queries that point along the key
    _, before = attention(q, k, v, return_weights=True)
    k[2] *= alpha
    _, after = attention(q, k, v, return_weights=True)
    assert (after[towards, 2] >= before[towards, 2]).all()


@given(st.integers(0, 999), st.permutations(range(6)))
def test_without_positions_permuting_inputs_permutes_outputs(seed, order):
    torch.manual_seed(seed)
    layer, x = MultiHeadAttention(8, 2).eval(), torch.randn(1, 6, 8)
    with torch.no_grad():
        torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-5, rtol=1e-5)


def test_worked_example():
    q = torch.tensor([[1, 3], [-1, 1], [2.5, -2]])
    k = torch.tensor([[3, -0.5], [2, -1.5], [-2.5, 3.5]])
    v = torch.tensor([[2.5, -1.5], [-1, 3], [-2, -3]])
    scores = torch.tensor([[1.5, -2.5, 8], [-3.5, -3.5, 6], [8.5, 8, -13.25]])
    torch.testing.assert_close(q @ k.T, scores)
    expected = torch.tensor([[-2, -3], [-2, -3], [1.18, 0.20]])
    torch.testing.assert_close(attention(q, k, v, scale=1.0), expected, atol=0.01, rtol=0)
    torch.testing.assert_close(attention(q, k, v, scale=1.0, return_weights=True)[0], expected, atol=0.01, rtol=0)


def set_identity(layer: MultiHeadAttention, qk: float) -> None:
    """One head of full width: scores of `qk` times the inner product, values and output as they are."""
    d = layer.qkv.in_features
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.cat([qk * torch.eye(d), torch.eye(d), torch.eye(d)]))
        layer.proj.weight.copy_(torch.eye(d))


def test_weights_that_make_it_an_identity():
    layer, x = MultiHeadAttention(8, 1), torch.eye(8)[None]
    set_identity(layer, 1e4)
    torch.testing.assert_close(layer(x), x)


def test_weights_that_make_it_a_permutation():
    layer, x = MultiHeadAttention(8, 1), torch.eye(8)[None]
    set_identity(layer, 1e4)
    order = torch.tensor([3, 0, 1, 2, 7, 4, 5, 6])
    with torch.no_grad():
        layer.qkv.weight[:8] = 0
        layer.qkv.weight[order, torch.arange(8)] = 1e4  # the query of input i is the key of input order[i]
    torch.testing.assert_close(layer(x), x[:, order])


def test_weights_that_make_it_a_convolution_of_kernel_3():
    """Three heads, each hard on one relative position by its bias; the output projection holds the kernel.

    The first 4 of 12 values are the input and the output.
    """
    d, time = 4, 10
    torch.manual_seed(5)
    layer, bias, kernel = MultiHeadAttention(3 * d, 3), RelativeBias(3, 64), torch.randn(d, d, 3)
    with torch.no_grad():
        layer.qkv.weight.zero_()
        layer.qkv.weight[6 * d :, :d] = torch.eye(d).repeat(3, 1)
        layer.proj.weight[:d] = torch.cat([kernel[:, :, tap] for tap in range(3)], 1)
        for head, relative in enumerate((1, 0, -1)):  # query - key of taps 0, 1, 2
            bias.weight[head, relative_bucket(torch.tensor(relative))] = 1e4
    x = torch.randn(2, time, d)
    position = torch.arange(time)
    bucket = relative_bucket(position[:, None] - position[None])[None]
    out = layer(nn.functional.pad(x, (0, 2 * d)), bias=bias(bucket))[..., :d]
    convolved = nn.functional.conv1d(x.transpose(1, 2), kernel, padding=1).transpose(1, 2)
    torch.testing.assert_close(out[:, 1:-1], convolved[:, 1:-1], atol=1e-5, rtol=1e-5)


def test_no_weight_on_the_future_under_the_causal_mask():
    torch.manual_seed(6)
    layer, x, position = MultiHeadAttention(16, 4), torch.randn(2, 7, 16), torch.arange(7)
    _, weights = layer(x, mask=causal_mask(position, position), return_weights=True)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7))


def test_size_of_the_base_transformer():
    layer = MultiHeadAttention(512, 8)
    assert sum(p.numel() for p in layer.parameters()) == 4 * 512 * 512 == 1_048_576
    assert layer.head_dim == 64
    cross = MultiHeadAttention(512, 8, cross=True)
    assert sum(p.numel() for p in cross.parameters()) == 1_048_576
    with pytest.raises(ValueError, match="multiple"):
        MultiHeadAttention(10, 4)


@pytest.mark.parametrize("cross", [False, True])
def test_equals_torch_with_the_same_weights(cross):
    torch.manual_seed(7)
    theirs = nn.MultiheadAttention(24, 3, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = MultiHeadAttention(24, 3, cross=cross, bias=True)
    weight, bias = theirs.in_proj_weight, theirs.in_proj_bias
    state = {"proj.weight": theirs.out_proj.weight, "proj.bias": theirs.out_proj.bias}
    if cross:
        state |= {"q.weight": weight[:24], "q.bias": bias[:24], "kv.weight": weight[24:], "kv.bias": bias[24:]}
    else:
        state |= {"qkv.weight": weight, "qkv.bias": bias}
    ours.load_state_dict(state)
    x = torch.randn(2, 6, 24)
    memory = torch.randn(2, 9, 24) if cross else x
    expected, expected_weights = theirs(x, memory, memory, average_attn_weights=False)
    projected = ours.project_memory(memory) if cross else None
    out, weights = ours(x, memory=projected, return_weights=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=1e-5)


@given(
    st.integers(0, 99),
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.integers(0, 9),
    st.integers(0, 3),
    st.integers(0, 10**9),
)
def test_the_window_holds_exactly_the_positions_that_later_queries_may_see(seed, chunks, left, ahead, first):
    """Left context, chunk and look-ahead in order, each with its own key, whatever the chunks and where rows begin."""
    torch.manual_seed(seed)
    widest = max(chunks) + ahead
    keys = torch.randn(2, 1, sum(chunks) + ahead, 3)
    cache = KeyValueCache.empty(2, 1, 1, left + widest + 2, 3, keys, left)
    start, begin = 0, torch.tensor([[0], [first]])
    for chunk in chunks:
        seen = range(max(0, start - left), start + chunk + ahead)
        at = cache.claim(begin + torch.arange(start, start + chunk + ahead), chunk)
        new = keys[:, :, start : start + chunk + ahead]
        held, _ = cache.append(0, new, new)
        assert at.tolist() == [[offset + position for position in seen] for offset in (0, first)]
        assert torch.equal(held, keys[:, :, seen.start : seen.stop])
        start += chunk
    with pytest.raises(ValueError, match="do not fit"):
        cache.claim(torch.arange(left + widest + 3)[None].expand(2, -1))

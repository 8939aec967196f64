"""Stem and encoder: who sees whom, what teaches whom, and the CTC branch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.encoder import Stem
from asr.nn.positions import Rotary, relative_bucket
from asr.nn.transformer import Block
from tests.small import ENCODER, randomise, small_encoder

STEM = randomise(Stem(80, 24), 0)
BLOCK = randomise(Block(32, 4, 48, rotary=Rotary(4), buckets=64), 1)
ENC = small_encoder()
FORKED = small_encoder(layers=3, ctc_layers=2, ctc_after=1)
encoders = pytest.mark.parametrize("encoder", [ENC, FORKED], ids=["in line", "forked"])
chunks, aheads, lengths = st.integers(1, 7), st.integers(0, 9), st.integers(1, 40)


def frames(seed: int, positions: int, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3 * positions, 80, generator=torch.Generator().manual_seed(seed))


# ---- stem ----


@given(st.integers(0, 99), lengths, st.integers(0, 39))
def test_stem_position_m_sees_frames_up_to_3m_plus_2(seed, positions, at):
    at = min(at, positions)
    x, other = frames(seed, positions), frames(seed + 1, positions)
    changed = torch.cat([x[:, : 3 * at], other[:, 3 * at :]], 1)
    torch.testing.assert_close(STEM(changed)[0][:, :at], STEM(x)[0][:, :at], atol=1e-6, rtol=0)
    if at:
        x[:, 3 * at - 1] += 1
        assert (STEM(x)[0][:, at - 1] != STEM(changed)[0][:, at - 1]).any()


def test_stem_look_ahead_leaves_the_state_where_it_was():
    x = frames(1, 10)
    _, state = STEM(x[:, :12], None, own=2)
    torch.testing.assert_close(STEM(x[:, 6:], state)[0], STEM(x)[0][:, 2:], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="whole positions"):
        STEM(x[:, :4])


# ---- encoder ----


@encoders
@given(st.integers(0, 99), lengths, chunks, aheads)
def test_the_memory_is_the_same_without_ctc(encoder, seed, positions, chunk, look_ahead):
    x, one, other = frames(seed, positions + look_ahead), None, None
    for start in range(0, positions, chunk):
        window = x[:, 3 * start : 3 * (start + chunk + look_ahead)]
        whole, one = encoder(window, one, min(chunk, window.shape[1] // 3))
        part, other = encoder(window, other, min(chunk, window.shape[1] // 3), ctc=False)
        torch.testing.assert_close(part.memory, whole.memory, atol=1e-5, rtol=0)
        assert part.log_probs.shape == (1, 0, encoder.config.vocabulary)


@given(st.integers(0, 99), lengths, chunks, aheads, st.integers(0, 2))
def test_a_branch_that_leaves_earlier_begins_by_giving_what_it_gave(seed, positions, chunk, look_ahead, after):
    x, mode = frames(seed, positions), {"chunk": chunk, "look_ahead": look_ahead}
    before, forked = ENC.encode(x, **mode), ENC.forked(after)
    assert len(forked.blocks) == len(ENC.blocks) + 2 - after
    taps = range(forked.config.layers + 1)
    output = forked.encode(x, **mode, taps=taps)
    torch.testing.assert_close(output.memory, before.memory, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.log_probs, before.log_probs, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.taps, ENC.encode(x, **mode, taps=taps).taps, atol=1e-5, rtol=0)


def test_a_branch_cannot_leave_after_blocks_that_it_does_not_pass():
    with pytest.raises(ValueError, match="after block 1: it can leave earlier, not after 2"):
        FORKED.forked(2)


@encoders
def test_blocks_read_what_the_configuration_says(encoder):
    x, blocks = frames(4, 12), len(encoder.blocks)
    taps = encoder.encode(x, taps=range(blocks + 1)).taps
    positions = torch.arange(12)[None]
    bucket = relative_bucket(positions[:, :, None] - positions[:, None])
    for block in range(1, blocks + 1):
        read = taps[encoder.config.read_by(block)]
        output = encoder.blocks[block - 1](read, positions=positions, bucket=bucket)
        torch.testing.assert_close(output, taps[block], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("share", "learns"), [(0, [0, 0, 0, 1, 1]), (1, [1, 0, 0, 1, 1])])
def test_ctc_teaches_its_own_blocks_and_those_it_shares(share, learns):
    encoder = small_encoder(layers=3, ctc_layers=2, ctc_after=1).requires_grad_(True)
    encoder.encode(frames(3, 9), ctc_gradient=share).log_probs[..., 1].sum().backward()
    gradients = [block.ff.up.weight.grad for block in encoder.blocks]
    assert [gradient is not None and bool(gradient.any()) for gradient in gradients] == learns


@encoders
@given(st.data(), st.integers(0, 99), chunks, aheads, st.booleans())
def test_trunk_and_branch_are_the_encoder_in_two_parts(encoder, data, seed, chunk, look_ahead, full):
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    x, mode = frames(seed, max(sizes), len(sizes)), {} if full else {"chunk": chunk, "look_ahead": look_ahead}
    whole = encoder.encode(x, torch.tensor([3 * n for n in sizes]), **mode)
    stream, positions = encoder.trunk(x, torch.tensor([3 * n for n in sizes]), **mode)
    assert positions.tolist() == sizes
    torch.testing.assert_close(encoder.branch(stream, positions, max(sizes), **mode), whole.log_probs, atol=0, rtol=0)


@encoders
@given(st.data(), st.integers(0, 99), chunks, aheads, st.booleans())
def test_padding_and_batch_mates_change_nothing(encoder, data, seed, chunk, look_ahead, full):
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=2, max_size=4))
    x = frames(seed, max(sizes), len(sizes))
    mode = {} if full else {"chunk": chunk, "look_ahead": look_ahead}
    together = encoder.encode(x, torch.tensor([3 * n for n in sizes]), **mode)
    assert together.lengths.tolist() == sizes
    for row, n in enumerate(sizes):
        alone = encoder.encode(x[row : row + 1, : 3 * n], **mode)
        torch.testing.assert_close(together.log_probs[row, :n], alone.log_probs[0], atol=1e-4, rtol=0)
        torch.testing.assert_close(together.memory[row, :n], alone.memory[0], atol=1e-4, rtol=0)


def test_left_context_is_used_and_ends_where_it_should():
    """A frame is felt by the chunks that may see it directly, and one block deep not beyond."""
    x = frames(8, 40)
    shallow = randomise(type(ENC)(type(ENCODER)(**{**vars(ENCODER), "layers": 1, "ctc_layers": 0})), 3)
    before = shallow.encode(x, chunk=4).memory
    x[:, 0] += 3  # position 0, and through the stem at most position 2
    moved = (shallow.encode(x, chunk=4).memory - before).abs().amax(-1)[0] > 1e-6
    assert moved[:16].all()  # starts of chunks up to 12 + 2 reach back to position 0 .. 2
    assert not moved[16:].any()

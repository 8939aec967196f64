import random

import pytest
import torch

from asr.manifest import Utterance
from asr.nn.encoder import FULL_CONTEXT, Chunking, EncoderConfig, StreamingEncoder
from asr.training.augment import MASKED, random_gain, spec_augment
from asr.training.chunks import draw_chunking, possible_chunks
from asr.training.config import AugmentConfig, ChunkConfig, LossConfig, OptimiserConfig, ScheduleConfig
from asr.training.data import Batch
from asr.training.losses import Lesson, consistency_loss, weighted_losses
from asr.training.optimiser import learning_rate, parameter_groups, rate_scale

SIZES = EncoderConfig(d_model=32, heads=2, inner=64, layers=1, rotary_dim=8, vocabulary=12, left_context=20)


def batch_of(targets):
    lengths = torch.tensor([len(t) for t in targets])
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(t) for t in targets], batch_first=True)
    utterances = (Utterance("a", 1.0, ""),) * len(targets)
    return Batch(torch.zeros(len(targets), 0), lengths, lengths, padded, lengths, utterances, (), 0, 0)


@pytest.mark.parametrize("chunking", [*possible_chunks(ChunkConfig()), FULL_CONTEXT])
def test_loss_and_gradient_are_finite_for_every_chunk(chunking):
    torch.manual_seed(0)
    encoder = StreamingEncoder(SIZES)
    output = encoder.encode(torch.randn(3, 150, 80), torch.tensor([150, 90, 31]), chunking)
    lesson = Lesson(batch_of([[1, 2, 2, 3], [4, 5], [6]]), output.lengths, LossConfig())
    loss, parts = weighted_losses(lesson, [output])
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.equal(parts["ctc"], loss.detach())
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)


def test_an_utterance_without_room_for_its_text_counts_as_zero():
    encoder = StreamingEncoder(SIZES)
    output = encoder.encode(torch.randn(1, 9, 80), torch.tensor([9]))
    loss, _ = weighted_losses(Lesson(batch_of([[1, 1, 2, 2]]), output.lengths, LossConfig()), [output])
    assert loss == 0


def test_padding_does_not_change_the_loss():
    torch.manual_seed(0)
    encoder = StreamingEncoder(SIZES).eval()
    frames = torch.randn(1, 60, 80)
    padded = torch.cat([frames, torch.randn(1, 60, 80)], 1)
    for chunking in (Chunking(7, 7), FULL_CONTEXT):
        alone, inside = (
            weighted_losses(
                Lesson(batch_of([[1, 2, 3]]), torch.tensor([20]), LossConfig()),
                [encoder.encode(x, torch.tensor([60]), chunking)],
            )[0]
            for x in (frames, padded)
        )
        assert alone.item() == pytest.approx(inside.item(), abs=1e-4)


def test_chunks_are_drawn_within_their_cost_and_full_context_as_often_as_asked():
    config = ChunkConfig(sizes=(3, 13), look_ahead=(0, 7, 13), full_context=0.3, max_cost=2)
    assert possible_chunks(config) == [Chunking(3), Chunking(13), Chunking(13, 7), Chunking(13, 13)]
    draws = [draw_chunking(config, random.Random(i)) for i in range(3000)]
    assert {*draws} == {FULL_CONTEXT, *possible_chunks(config)}
    assert draws.count(FULL_CONTEXT) / 3000 == pytest.approx(0.3, abs=0.03)


def test_the_favoured_chunk_comes_as_often_as_asked_and_left_context_is_drawn():
    config = ChunkConfig(sizes=(7,), look_ahead=(0,), full_context=0.5, favoured=(13, 13), favour=0.4)
    draws = [draw_chunking(config, random.Random(i)) for i in range(3000)]
    assert draws.count(Chunking(13, 13)) / 3000 == pytest.approx(0.2, abs=0.03)
    contexts = ChunkConfig(left_context=(50, 250))
    assert {draw_chunking(contexts, random.Random(i)).left_context for i in range(50)} == {50, 250}
    assert draw_chunking(ChunkConfig(), random.Random(0)).left_context is None


def test_masks_are_each_utterances_own_and_inside_of_it():
    torch.manual_seed(0)
    frames, lengths = torch.full((4, 200, 80), 5.0), torch.tensor([200, 150, 100, 40])
    masked = spec_augment(
        frames, lengths, AugmentConfig(frequency_masks=0, time_masks=3, time_width=30, time_share=0.1)
    )
    hit = (masked == MASKED).all(2)
    for row, length in enumerate(lengths.tolist()):
        assert not hit[row, length:].any()
        assert hit[row].sum() <= 3 * min(30, 0.1 * length)
    assert not torch.equal(hit[0], hit[1])
    bands = spec_augment(frames, lengths, AugmentConfig(frequency_masks=2, frequency_width=20, time_masks=0)) == MASKED
    assert torch.equal(bands.all(1), bands.any(1))
    assert not torch.equal(bands[0], bands[1])
    assert bands[:, 0].sum(1).max() <= 40


def test_augmentation_is_drawn_from_the_seed_and_can_be_switched_off():
    frames, lengths = torch.randn(2, 90, 80), torch.tensor([90, 60])
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append((random_gain(2, 6, torch.device("cpu")), spec_augment(frames, lengths, AugmentConfig())))
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    assert torch.equal(spec_augment(frames, lengths, AugmentConfig(frequency_masks=0, time_masks=0)), frames)
    assert torch.equal(random_gain(2, 0, torch.device("cpu")), torch.ones(2))
    assert random_gain(1000, 6, torch.device("cpu")).log10().mul(20).abs().max() <= 6


def test_norms_biases_and_the_relative_bias_do_not_decay():
    encoder = StreamingEncoder(SIZES)
    decayed, plain = parameter_groups(encoder, OptimiserConfig(weight_decay=0.1), SIZES.layers)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    assert all("norm" not in name and "bias" not in name and "relative" not in name for name in decayed["names"])
    assert any("relative" in name for name in plain["names"])
    assert len(decayed["names"]) + len(plain["names"]) == len(list(encoder.parameters()))


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("encoder.blocks.2.ff.up.weight", 1.0),
        ("encoder.blocks.0.ff.up.weight", 0.25),
        ("encoder.blocks.1.relative.weight", 0.5 * 8),
        ("encoder.stem.conv1.weight", 0.125 * 1.5),
        ("encoder.blocks.3.ff.up.weight", 3.0),
        ("encoder.blocks.3.relative.weight", 3.0 * 8),
        ("encoder.norm_ctc.weight", 3.0),
        ("encoder.norm_memory.weight", 1.0),
        ("encoder.ctc.bias", 10.0),
    ],
)
def test_parts_learn_at_multiples_of_the_rate(name, scale):
    config = OptimiserConfig(stem_rate=1.5, relative_rate=8, ctc_rate=3, output_rate=10, layer_decay=0.5)
    assert rate_scale(name, config, layers=3) == scale


@pytest.mark.parametrize(("decay", "last"), [("cosine", 0.1), ("inverse_sqrt", 0.1**0.5), ("constant", 1.0)])
def test_the_rate_rises_to_its_peak_and_falls_to_its_floor(decay, last):
    schedule = ScheduleConfig(steps=100, warmup=10, decay=decay, floor=0.1)
    rates = [learning_rate(step, 2.0, schedule) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[9] == pytest.approx(2.0) == max(rates)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(2 * last)


def answered(config, seed=0, taps=()):
    """A lesson of two rows and two views of it, as an untrained encoder answers them."""
    torch.manual_seed(seed)
    encoder = StreamingEncoder(SIZES)
    lengths = torch.tensor([90, 60])
    views = [encoder.encode(torch.randn(2, 90, 80), lengths, taps=taps) for _ in range(2)]
    batch = batch_of([[1, 2, 3], [4, 5]])
    return encoder, Lesson(batch, views[0].lengths, config, taps=taps, head=encoder.posteriors), views


def test_intermediate_ctc_is_ctc_of_the_model_without_the_blocks_after_it():
    config = LossConfig(intermediate=0.5, intermediate_blocks=(1,))
    encoder, lesson, (view, _) = answered(config, taps=(1,))
    total, parts = weighted_losses(lesson, [view])
    encoder.blocks = encoder.blocks[:1]
    torch.manual_seed(0)
    StreamingEncoder(SIZES)
    shorter = encoder.encode(torch.randn(2, 90, 80), torch.tensor([90, 60]))
    _, expected = weighted_losses(Lesson(lesson.batch, lesson.lengths, LossConfig()), [shorter])
    assert parts["intermediate"].item() == pytest.approx(expected["ctc"].item(), rel=1e-5)
    assert total.item() == pytest.approx((parts["ctc"] + 0.5 * parts["intermediate"]).item())


def test_views_that_agree_are_consistent_and_each_learns_from_the_other():
    _, lesson, (one, other) = answered(LossConfig(consistency=0.2))
    assert consistency_loss(lesson, [one, one]).item() == pytest.approx(0, abs=1e-5)
    apart = consistency_loss(lesson, [one, other])
    a, b = one.log_probs.double(), other.log_probs.double()
    by_hand = 0.5 * ((a.exp() - b.exp()) * (a - b)).sum(-1)
    inside = torch.arange(30) < torch.tensor([[30], [20]])
    assert apart.item() == pytest.approx((by_hand * inside).sum().item(), rel=1e-4)
    (gradient,) = torch.autograd.grad(apart, one.log_probs)
    torch.testing.assert_close(gradient, -0.5 * other.log_probs.exp() * inside[..., None], atol=1e-6, rtol=1e-4)


def test_the_loss_of_two_views_is_the_mean_of_theirs():
    _, lesson, views = answered(LossConfig())
    both, _ = weighted_losses(lesson, views)
    each = [weighted_losses(lesson, [view])[0] for view in views]
    assert both.item() == pytest.approx(sum(each).item() / 2, rel=1e-5)

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asr.training.batching import BucketedBatches

durations = st.lists(st.floats(0.1, 20), min_size=1, max_size=200)


@given(durations, st.integers(1, 8), st.integers(0, 50), st.integers(0, 5))
def test_every_utterance_comes_exactly_once_an_epoch(durations, buckets, seed, epoch):
    batches = BucketedBatches(durations, 25, buckets, seed).epoch(epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(durations)))
    assert all(batches)


@given(durations, st.integers(1, 8), st.floats(20, 100))
def test_padded_audio_stays_under_the_cap(durations, buckets, cap):
    for batch in BucketedBatches(durations, cap, buckets, 3).epoch(0):
        assert max(durations[index] for index in batch) * len(batch) <= cap


@given(durations, st.integers(1, 8), st.integers(0, 5))
def test_batches_are_a_function_of_seed_and_epoch(durations, buckets, epoch):
    first, second = (BucketedBatches(durations, 25, buckets, 7) for _ in range(2))
    second.epoch(epoch + 1)
    assert first.epoch(epoch) == second.epoch(epoch)


def test_epochs_and_seeds_differ():
    durations = np.random.default_rng(0).uniform(1, 15, 500)
    plan = BucketedBatches(durations, 60, 8, 1)
    assert plan.epoch(0) != plan.epoch(1)
    assert {tuple(sorted(b)) for b in plan.epoch(0)} != {tuple(sorted(b)) for b in plan.epoch(1)}
    assert plan.epoch(0) != BucketedBatches(durations, 60, 8, 2).epoch(0)


def test_long_and_short_batches_are_mixed():
    durations = np.random.default_rng(0).uniform(1, 15, 500)
    longest = [max(durations[i] for i in batch) for batch in BucketedBatches(durations, 60, 8, 1).epoch(0)]
    assert longest != sorted(longest)


def test_buckets_keep_padding_low():
    durations = np.random.default_rng(0).uniform(1, 15, 2000)
    batches = BucketedBatches(durations, 100, 16, 1).epoch(0)
    padded = sum(max(durations[i] for i in batch) * len(batch) for batch in batches)
    assert padded < 1.1 * durations.sum()


def test_without_a_seed_the_order_is_that_of_duration():
    assert BucketedBatches([3.0, 1.0, 2.0], 100, 1, None).epoch(5) == [[1, 2, 0]]


def test_the_fingerprint_tells_other_batches():
    same = [BucketedBatches([1.0, 2.0], 10, 2, 1).fingerprint() for _ in range(2)]
    assert same[0] == same[1]
    others = [([1.0, 2.0], 11, 2, 1), ([1.0, 2.5], 10, 2, 1), ([1.0, 2.0], 10, 3, 1), ([1.0, 2.0], 10, 2, 4)]
    assert all(BucketedBatches(*other).fingerprint() != same[0] for other in others)


@given(st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.3, 2.0, 3.0]), min_size=1, max_size=100), st.integers(1, 12))
def test_weights_are_met_over_epochs(weights, epochs):
    plan = BucketedBatches([1.0] * len(weights), 5, 2, 1, weights)
    counts = np.zeros(len(weights))
    for epoch in range(epochs):
        for batch in plan.epoch(epoch):
            np.add.at(counts, batch, 1)
    if sum(weights) >= len(weights) or len(weights) > 30:  # a tiny corpus of small weights has no empty epochs
        assert (np.abs(counts - epochs * np.asarray(weights)) <= 1).all()
    assert counts.sum() >= epochs


def test_half_of_a_corpus_is_another_half_in_the_next_epoch_and_all_of_it_in_two():
    plan = BucketedBatches([1.0] * 1000, 10, 4, 1, [0.5] * 600 + [1.0] * 400)
    first, second = ({i for batch in plan.epoch(epoch) for i in batch} for epoch in (0, 1))
    assert len([i for i in first if i < 600]) in range(298, 303)
    assert first | second == set(range(1000))
    assert first & second == set(range(600, 1000))


def test_weights_of_one_change_nothing_and_others_are_in_the_fingerprint():
    durations = np.random.default_rng(0).uniform(1, 15, 50)
    plain, ones, twos = (BucketedBatches(durations, 60, 4, 1, w) for w in (None, [1.0] * 50, [2.0] * 50))
    assert plain.epoch(3) == ones.epoch(3)
    assert plain.fingerprint() == ones.fingerprint() != twos.fingerprint()


def test_a_small_weight_leaves_no_epoch_empty():
    assert all(BucketedBatches([1.0], 10, 1, 1, [0.1]).epoch(epoch) == [[0]] for epoch in range(20))

"""Which utterances go together: batches of similar duration under a cap, the same for the same seed and epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

GOLDEN = (5**0.5 - 1) / 2


def draw_seed(*numbers: int) -> int:
    """A seed that is a function of numbers (seed, epoch, batch, ...): whoever knows them draws the same."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class BucketedBatches:
    """Batches of utterances of similar duration.

    Utterances are sorted by duration into buckets of equal total duration, shuffled inside of each, and cut into
    batches whose padded audio, longest times count, stays under the cap.

    Args:
        durations: of the utterances (seconds).
        cap: padded audio in a batch (seconds); an utterance above it is a batch of its own.
        buckets: number of buckets.
        seed: of the shuffling; None = nothing is shuffled.
        weights: how often each utterance comes an epoch, on average over the epochs; none = once. 2 = twice in each;
            0.5 = every second utterance, the others in the next epoch.
    """

    def __init__(
        self,
        durations: Sequence[float] | np.ndarray,
        cap: float,
        buckets: int = 8,
        seed: int | None = 0,
        weights: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        self.durations = np.asarray(durations, np.float64)
        self.cap, self.buckets, self.seed = cap, buckets, seed
        self.weights = np.ones_like(self.durations) if weights is None else np.asarray(weights, np.float64)
        self._order = np.argsort(self.durations, kind="stable")
        total = np.cumsum((self.durations * self.weights)[self._order])
        share = total / total[-1] if len(total) else total
        self._bucket = np.minimum((share * buckets).astype(np.int64), buckets - 1)

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch: indices of utterances, in the order in which they are trained on."""
        times = self._times(number)[self._order]
        order, bucket = np.repeat(self._order, times), np.repeat(self._bucket, times)
        random = None
        if self.seed is not None:
            random = np.random.default_rng(draw_seed(self.seed, number))
            order = order[np.lexsort((random.random(len(order)), bucket))]
        batches: list[list[int]] = []
        longest = 0.0
        for index in order.tolist():
            duration = float(self.durations[index])
            longest = max(longest, duration)
            if not batches or longest * (len(batches[-1]) + 1) > self.cap:
                batches.append([])
                longest = duration
            batches[-1].append(index)
        if random is not None:
            random.shuffle(batches)
        return batches

    def _times(self, epoch: int) -> np.ndarray:
        """How often each utterance comes in an epoch.

        Utterance i has come floor(n weight + phase) times after n epochs, with phases that spread the utterances of
        every stretch of a corpus evenly over the epochs (multiples of the golden ratio).
        """
        phase = (np.arange(len(self.weights)) * GOLDEN + 0.5) % 1
        times = np.floor((epoch + 1) * self.weights + phase) - np.floor(epoch * self.weights + phase)
        if len(times) and not times.any():
            times[epoch % len(times)] = 1
        return times.astype(np.int64)

    def fingerprint(self) -> str:
        """Equal for batches that are equal in every epoch."""
        digest = hashlib.blake2b(repr((self.cap, self.buckets, self.seed)).encode(), digest_size=8)
        digest.update(self.durations.tobytes())
        if (self.weights != 1).any():
            digest.update(self.weights.tobytes())
        return digest.hexdigest()

"""A moving average of the weights: it errs less than the last weights do, above all while the learning rate is high."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of a model's parameters that learn (Polyak and Juditsky 1992, with forgetting).

    Args:
        model: whose weights are averaged.
        decay: share of the average that an update keeps; fewer in the first updates, (1 + n) / (10 + n) of the n-th.
        start_share: share that the weights as they are now will have in what is put to use.
    """

    def __init__(self, model: nn.Module, decay: float, start_share: float = 0.0) -> None:
        self.decay, self.start_share = decay, start_share
        self._model = model
        self.tensors: dict[str, Tensor] = {}
        self.begin()
        self._start = {name: tensor.clone() for name, tensor in self.tensors.items()} if start_share else {}

    def _learning(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self._model.named_parameters() if p.requires_grad}

    def begin(self) -> None:
        """The average of the weights as they are now."""
        self.tensors = {name: p.detach().clone() for name, p in self._learning().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes on from a checkpoint; KeyError or RuntimeError where it does not fit."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights after a step, counted from 1."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        weights = self._learning()
        torch._foreach_lerp_(list(self.tensors.values()), [weights[name] for name in self.tensors], share)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The model has the averaged weights inside of the context."""
        held = {name: p.detach().clone() for name, p in self._learning().items()}
        self.put()
        try:
            yield
        finally:
            self._copy(held)

    def put(self) -> None:
        """Gives the model the averaged weights."""
        start, share = self._start, self.start_share
        self._copy({name: t.lerp(start[name], share) for name, t in self.tensors.items()} if start else self.tensors)

    @torch.no_grad()
    def _copy(self, tensors: Mapping[str, Tensor]) -> None:
        for name, p in self._learning().items():
            p.copy_(tensors[name])

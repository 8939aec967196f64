"""Several processes that train one model, started by `torchrun`: who they are and what they agree on.

Each has the whole model, does other batches than the rest, and averages the gradients with them, so that all weights
stay equal: there is nothing that a wrapper around the model would add.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from asr.errors import ConfigError

PATIENCE = timedelta(hours=2)  # for the others, who may be measuring the dev set
PIECE = 2**24  # values that are sent at a time


class Team:
    """The processes of a run; alone (the default), all that they do together does nothing.

    Attributes:
        rank: this process among `size`, counted from 0; 0 leads: it logs, saves and shows.
        size: how many there are.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size, self.device = rank, size, device or torch.device("cpu")

    @classmethod
    def join(cls, device: torch.device) -> Team:
        """The team that `torchrun` has started, or this process alone."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls(device=device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        return cls(distributed.get_rank(), size, device)

    def leave(self) -> None:
        if self.size > 1:
            distributed.destroy_process_group()

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """The leader does the body alone, then the others do it."""
        if not self.leads:
            self.wait()
        yield
        if self.leads:
            self.wait()

    def wait(self) -> None:
        """Until all are here."""
        self.sum([0.0])

    def sum(self, values: list[float]) -> list[float]:
        """The sums of everybody's numbers."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """What everybody has, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def agree(self, value: Any, what: str) -> None:
        """ConfigError unless everybody has the same value."""
        values = self.gather(value)
        if any(other != values[0] for other in values):
            raise ConfigError(f"the processes of the run differ in {what}: all machines need the same --run folder")

    def share_weights(self, model: nn.Module) -> None:
        """Everybody takes the leader's weights."""
        if self.size > 1:
            for tensor in [*model.parameters(), *model.buffers()]:
                distributed.broadcast(tensor.data, 0)

    def average_gradients(self, parameters: Iterable[nn.Parameter], count: float) -> None:
        """Gradients that each process has summed become everybody's sum over `count`.

        Parameters that nobody has a gradient for have none afterwards.
        """
        parameters = [p for p in parameters if p.requires_grad]
        if self.size == 1:
            if count != 1:
                torch._foreach_div_([p.grad for p in parameters if p.grad is not None], count)
            return
        there = self.sum([float(p.grad is not None) for p in parameters])
        for piece in _pieces([p for p, present in zip(parameters, there, strict=True) if present]):
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in piece])
            distributed.all_reduce(flat.div_(count))
            for p, part in zip(piece, flat.split([p.numel() for p in piece]), strict=True):
                p.grad = part.view_as(p)


def _pieces(tensors: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Runs of tensors with some `PIECE` values together."""
    piece: list[nn.Parameter] = []
    for tensor in tensors:
        piece.append(tensor)
        if sum(map(Tensor.numel, piece)) >= PIECE:
            yield piece
            piece = []
    if piece:
        yield piece

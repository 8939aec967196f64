"""Muon for the matrices of blocks, AdamW for all else."""

from __future__ import annotations

import torch
from torch import Tensor

ITERATIONS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of the quintic polynomial, as published
RMS = 0.2  # of an update's values, at a learning rate of 1: about what AdamW's have


def orthogonalised(x: Tensor) -> Tensor:
    """A matrix `(rows, columns)` with all singular values moved near 1 (between 0.7 and 1.2), in single precision.

    Newton-Schulz iterations (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks").
    """
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x.float() / x.norm().clamp(min=1e-12)
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.T if tall else x


class Muon(torch.optim.AdamW):
    """AdamW, but for groups with `parts`: the momentum of their matrices is orthogonalised before each step.

    Every direction that a matrix knows then changes by as much, and few steps go far. The groups' `parts` says how many
    matrices lie one on top of the other in each (query, key and value are three). Updates are scaled to the size of
    AdamW's (Liu et al. 2025, "Muon is scalable for LLM training"), so that both share a learning rate; the momentum is
    Nesterov's, and its decay is beta1. PyTorch's own Muon computes in bfloat16, which many processors do slowly.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"] if group["parts"] else ():
                if parameter.grad is not None:
                    self._turn(parameter, group)
                    parameter.grad = None  # AdamW passes it over
        super().step(closure)

    def _turn(self, parameter: Tensor, group: dict) -> None:
        state, gradient = self.state[parameter], parameter.grad
        if not state:
            state["step"], state["momentum"] = torch.tensor(0.0), torch.zeros_like(parameter)
        state["step"] += 1
        decay = group["betas"][0]
        momentum = state["momentum"].lerp_(gradient, 1 - decay)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        size = RMS * max(gradient.shape[0] // group["parts"], gradient.shape[1]) ** 0.5
        ahead = gradient.lerp(momentum, decay).chunk(group["parts"])
        for part, turned in zip(parameter.chunk(group["parts"]), map(orthogonalised, ahead), strict=True):
            part.sub_(turned.to(part.dtype), alpha=group["lr"] * size)

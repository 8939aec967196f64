"""AdamW with decay where it belongs, and the learning rate as a function of the step."""

from __future__ import annotations

import math

import torch
from torch import nn

from asr.training.config import OptimiserConfig, ScheduleConfig


def parameter_groups(model: nn.Module, config: OptimiserConfig) -> list[dict]:
    """Matrices and convolutions with weight decay; norms, biases and the learned relative bias without.

    Each group names its parameters (`names`), in order.
    """
    decayed: dict[str, nn.Parameter] = {}
    plain: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (plain if parameter.dim() < 2 or ".relative." in f".{name}" else decayed)[name] = parameter
    return [
        {"params": list(group.values()), "names": list(group), "weight_decay": decay}
        for group, decay in ((decayed, config.weight_decay), (plain, 0.0))
    ]


def build_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """AdamW over the model's parameters; the learning rate is set before each step."""
    groups = parameter_groups(model, config)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2))


def learning_rate(step: int, peak: float, schedule: ScheduleConfig) -> float:
    """The rate of a step (counted from 1): linear warm-up, then the chosen decay, never below the floor after it.

    `cosine` reaches the floor at the last step; `inverse_sqrt` is peak * sqrt(warmup / step) (Vaswani et al. 2017).
    """
    warmup = max(1, schedule.warmup)
    if step <= schedule.warmup:
        return peak * step / warmup
    if schedule.decay == "constant":
        return peak
    if schedule.decay == "inverse_sqrt":
        return peak * max(schedule.floor, math.sqrt(warmup / step))
    done = (step - schedule.warmup) / max(1, schedule.steps - schedule.warmup)
    return peak * (schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * min(done, 1))) / 2)

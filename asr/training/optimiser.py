"""AdamW or Muon with decay where it belongs, and the learning rate as a function of the step."""

from __future__ import annotations

import math

import torch
from torch import nn

from asr.training.config import OptimiserConfig, ScheduleConfig
from asr.training.muon import Muon

STACKED = {"qkv": 3, "kv": 2}  # matrices one on top of the other in a projection


def parameter_groups(model: nn.Module, config: OptimiserConfig, layers: int) -> list[dict]:
    """Parameters that learn alike; `layers` is the number of blocks up to the memory.

    Matrices and convolutions have weight decay; norms, biases and the learned relative bias none. Each group names its
    parameters (`names`), in order, and has the `scale` of its learning rate; with `config.muon` also the `parts` of
    Muon's matrices, 0 = AdamW's.
    """
    groups: dict[tuple[float, float, int], dict] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.dim() < 2 or ".relative." in f".{name}"
        parts = 0 if plain or not config.muon or "blocks." not in name else STACKED.get(name.split(".")[-2], 1)
        scale = rate_scale(name, config, layers) * (config.muon if parts else 1)
        key = scale, 0.0 if plain else config.weight_decay, parts
        group = groups.setdefault(
            key, {"params": [], "names": [], "scale": scale, "weight_decay": key[1], "parts": parts}
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def rate_scale(name: str, config: OptimiserConfig, layers: int) -> float:
    """The learning rate of a parameter of the model, as a multiple."""
    name = name.removeprefix("encoder.")
    if name.startswith("decoder."):
        crossing = ".cross." in name or ".norm_cross." in name
        return (config.cross_rate if crossing else 0) or config.decoder_rate or 1.0
    if name.startswith("ctc."):
        return config.output_rate
    if name.startswith("norm_ctc."):
        return config.ctc_rate
    if name.startswith("stem."):
        return config.stem_rate * config.layer_decay**layers
    if name.startswith("blocks."):
        layer = int(name.split(".")[1])
        scale = config.ctc_rate if layer >= layers else config.layer_decay ** (layers - 1 - layer)
        return scale * config.relative_rate if ".relative." in name else scale
    return 1.0


def build_optimiser(model: nn.Module, config: OptimiserConfig, layers: int) -> torch.optim.AdamW:
    """The optimiser of the model's parameters that learn; the learning rate is set before each step."""
    kind = Muon if config.muon else torch.optim.AdamW
    groups = parameter_groups(model, config, layers)
    return kind(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2))


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

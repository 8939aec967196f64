"""Weights on disk: safetensors, as float32, float16, or int8 with scales.

A quantised tensor X is stored as `X` (int8) with `X.scale` and, where the source was asymmetric, `X.offset` (both
broadcastable to X): X = int8 * scale + offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from asr.errors import ModelError
from asr.files import write_whole

MODELS = Path(__file__).parents[1] / "models"  # the built-in ones
SCALE, OFFSET = ".scale", ".offset"
SMALLEST_QUANTISED = 4096  # elements; norms, biases and other small tensors stay as they are


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 values and a float32 scale per output channel (first dimension), symmetric: `|error| <= scale / 2`."""
    flat = weight.float().flatten(1)
    scale = (flat.abs().amax(1) / 127).clamp(min=1e-12)
    values = (flat / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
    return values.view_as(weight), scale.view(-1, *[1] * (weight.dim() - 1))


def quantise_all(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All large matrices as int8 with one scale per output channel, the rest in float32."""
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() > 1 and weight.numel() >= SMALLEST_QUANTISED:
            stored[name], stored[name + SCALE] = quantise(weight)
        else:
            stored[name] = weight.float()
    return stored


def halve_all(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors in half precision."""
    return {name: weight.half() for name, weight in weights.items()}


def save_weights(weights: Mapping[str, Tensor], path: Path, *, durable: bool = False) -> None:
    """Writes tensors as safetensors, as `asr.files.write_whole` does."""
    from safetensors.torch import save

    write_whole(path, save({name: w.detach().cpu().contiguous() for name, w in weights.items()}), durable=durable)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Tensors in float32, dequantised; ModelError when the file is missing or broken."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ModelError(f"{path}: no such weights")
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a complete safetensors file") from error
    weights = {}
    for name, value in stored.items():
        if name.endswith((SCALE, OFFSET)):
            continue
        if value.dtype == torch.int8:
            weight = value.float().mul_(stored[name + SCALE])
            weights[name] = weight.add_(stored[name + OFFSET]) if name + OFFSET in stored else weight
        else:
            weights[name] = value.float()
    return weights

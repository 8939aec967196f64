"""Weights on disk: safetensors, as float32, float16, or int8 with scales.

A quantised tensor X is stored as `X` (int8) with `X.scale` and, where the source was asymmetric, `X.offset` (both
broadcastable to X): X = int8 * scale + offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from asr.errors import ModelError
from asr.files import write_whole

M = TypeVar("M", bound=nn.Module)

MODELS = Path(__file__).parents[1] / "models"  # the built-in ones
SCALE, OFFSET = ".scale", ".offset"
MISFIT = "the weights do not fit the configuration beside them"
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


def load_weights(path: Path, blocks: int | None = None) -> dict[str, Tensor]:
    """Tensors in float32, dequantised.

    Args:
        path: of a safetensors file.
        blocks: of the transformer whose weights they are, where that is known.

    Raises:
        ModelError: the file is missing or broken, has numbers that are none, or other blocks.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ModelError(f"{path}: no such weights")
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a complete safetensors file") from error
    if blocks is not None:  # told before a network of any number of blocks is built
        found = len({name.split(".")[1] for name in stored if name.startswith("blocks.")})
        if found != blocks:
            raise ModelError(f"{path}: {MISFIT}: {found} blocks, not {blocks}")
    return {name: _unpack(name, stored, path) for name in stored if not name.endswith((SCALE, OFFSET))}


def _unpack(name: str, stored: Mapping[str, Tensor], path: Path) -> Tensor:
    scale, offset = stored.get(name + SCALE), stored.get(name + OFFSET)
    if stored[name].dtype != torch.int8 or scale is None:
        return _finite(stored[name], name, path)
    weight = stored[name].float()
    try:
        weight.mul_(_finite(scale, name, path))
        return weight if offset is None else weight.add_(_finite(offset, name, path))
    except RuntimeError as error:
        raise ModelError(f"{path}: {name}: its scale or offset is of another shape") from error


def _finite(weight: Tensor, name: str, path: Path) -> Tensor:
    if not weight.is_floating_point():
        raise ModelError(f"{path}: {name}: weights are floating-point numbers, or int8 with a scale")
    weight = weight.float()
    if weight.numel() and not torch.stack(weight.aminmax()).isfinite().all():
        raise ModelError(f"{path}: {name}: holds values that are no finite numbers")
    return weight


def assign_weights(module: M, weights: Mapping[str, Tensor], path: Path) -> M:
    """Gives a module, which may be on "meta", the weights that were read from a file.

    Raises:
        ModelError: they do not fit the configuration that the module was made from.
    """
    wanted = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    given = {name: list(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            raise ModelError(
                f"{path}: {MISFIT}: {name} is {given.get(name, 'missing')}, not {wanted.get(name, 'missing')}"
            )
    module.load_state_dict(weights, assign=True)
    return module

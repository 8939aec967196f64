"""Vision Transformers on disk, and the names under which other libraries keep the same weights."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asr.errors import ModelError
from asr.files import write_whole
from asr.nn.sizes import read_json, read_sizes
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.weights import assign_weights, halve_all, load_weights, quantise_all, save_weights

CONFIG, WEIGHTS = "vit.json", "vit.safetensors"

_TIMM = {
    r"patch_embed\.proj\.": "patches.proj.",
    r"blocks\.(\d+)\.norm1\.": r"blocks.\1.norm_att.",
    r"blocks\.(\d+)\.norm2\.": r"blocks.\1.norm_ff.",
    r"blocks\.(\d+)\.attn\.(qkv|proj)\.": r"blocks.\1.att.\2.",
    r"blocks\.(\d+)\.mlp\.fc1\.": r"blocks.\1.ff.up.",
    r"blocks\.(\d+)\.mlp\.fc2\.": r"blocks.\1.ff.down.",
    r"norm\.": "norm.",
    r"pre_logits\.fc\.": "head.hidden.",
    r"head\.": "head.out.",
}
_TORCHVISION = {
    r"conv_proj\.": "patches.proj.",
    r"encoder\.layers\.encoder_layer_(\d+)\.ln_1\.": r"blocks.\1.norm_att.",
    r"encoder\.layers\.encoder_layer_(\d+)\.ln_2\.": r"blocks.\1.norm_ff.",
    r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_": r"blocks.\1.att.qkv.",
    r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.": r"blocks.\1.att.proj.",
    r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(0|linear_1)\.": r"blocks.\1.ff.up.",
    r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(3|linear_2)\.": r"blocks.\1.ff.down.",
    r"encoder\.ln\.": "norm.",
    r"heads\.pre_logits\.": "head.hidden.",
    r"heads\.head\.": "head.out.",
}


def from_timm(weights: Mapping[str, Tensor], grid: tuple[int, int] | None = None) -> dict[str, Tensor]:
    """The state dict of a timm `vit_*` with a class token, under this project's names.

    Args:
        weights: timm's state dict.
        grid: rows and columns of its patches; default: a square.

    Raises:
        ModelError: other weights than those of such a ViT.
    """
    return _convert(weights, _TIMM, "cls_token", "pos_embed", grid)


def from_torchvision(weights: Mapping[str, Tensor], grid: tuple[int, int] | None = None) -> dict[str, Tensor]:
    """The state dict of a torchvision `vit_*`; arguments and errors as in `from_timm`."""
    return _convert(weights, _TORCHVISION, "class_token", "encoder.pos_embedding", grid)


def _convert(
    weights: Mapping[str, Tensor], names: dict[str, str], token: str, positions: str, grid: tuple[int, int] | None
) -> dict[str, Tensor]:
    rest = dict(weights)
    try:
        class_token, embedding = rest.pop(token)[0, 0], rest.pop(positions)[0]
    except KeyError as error:
        raise ModelError(f"not the weights of a Vision Transformer with a class token: no {error.args[0]}") from error
    side = round((len(embedding) - 1) ** 0.5)
    rows, columns = grid or (side, side)
    if rows * columns != len(embedding) - 1:
        raise ModelError(f"{len(embedding) - 1} positions are no grid of {rows} x {columns}: state its size")
    converted = {
        "token": class_token + embedding[0],
        "positions.weight": embedding[1:].reshape(rows, columns, -1),
    }
    for name, value in rest.items():
        pattern = next((p for p in names if re.match(p, name)), None)
        if pattern is None:
            raise ModelError(f"not the weights of a plain Vision Transformer: {name} has no counterpart here")
        converted[re.sub(pattern, names[pattern], name, count=1)] = value
    return converted


def save_vit(
    model: VisionTransformer, folder: Path, extra: Mapping[str, Any] | None = None, *, pack: str = "float32"
) -> None:
    """Writes configuration and weights.

    Args:
        model: what to write.
        folder: where to; it is made.
        extra: what else the configuration file says: labels, where the weights come from.
        pack: `float32`, `float16`, or `int8` with a scale per output channel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    packs = {"float32": dict, "float16": halve_all, "int8": quantise_all}
    save_weights(packs[pack](model.state_dict()), folder / WEIGHTS)
    content = {**(extra or {}), "vit": asdict(model.config)}
    write_whole(folder / CONFIG, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load_vit(folder: Path) -> tuple[VisionTransformer, dict[str, Any]]:
    """A transformer ready for inference, and what else its configuration file says.

    Raises:
        ModelError: no such model, an unreadable one, or one whose weights do not fit its configuration.
    """
    path, weights = folder / CONFIG, folder / WEIGHTS
    try:
        extra = read_json(path)
    except OSError as error:
        raise ModelError(f"{folder}: holds no Vision Transformer ({CONFIG} is missing)") from error
    config = read_sizes(ViTConfig, extra.pop("vit", None), path, "vit")
    tensors = load_weights(weights, blocks=config.layers)
    with torch.device("meta"):
        model = VisionTransformer(config)
    return assign_weights(model, tensors, weights).eval().requires_grad_(False), extra

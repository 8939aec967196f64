"""float32 or bf16 in training, measured where the configuration does not say."""

from __future__ import annotations

import torch

from asr.nn.precision import FASTER, bf16_speed


def use_bf16(precision: str, device: torch.device) -> tuple[bool, str]:
    """Whether products are in bf16 (`precision` is float32, bf16 or auto), and a line that says why."""
    if precision != "auto":
        return precision == "bf16", f"{precision}, as precision says"
    ratio = bf16_speed(device)
    if ratio is None:
        return False, f"float32: {device} has no bf16"
    speed = f"{ratio:.1f} times faster" if ratio >= 1 else f"{1 / ratio:.1f} times slower"
    chosen = ratio >= FASTER
    return chosen, f"{'bf16' if chosen else 'float32'}: on {device}, products in bf16 are {speed}"

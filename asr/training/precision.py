"""float32 or bf16: measured, because some processors multiply bf16 five times faster and others sixty times slower."""

from __future__ import annotations

import time
from functools import cache

import torch
from torch import Tensor

FASTER = 1.3  # times, from which on bf16's fewer digits are worth it
CLOSE = 0.02  # largest error of a bf16 product, as a share of its norm
ROUNDS = 4


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


@cache
def bf16_speed(device: torch.device) -> float | None:
    """How many times faster a matrix product is in bf16 than in float32; None = the device has no use for bf16."""
    rows, width = (8192, 2048) if device.type == "cuda" else (64, 384)
    g = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=g).to(device) for size in ((rows, width), (width, width)))
    try:
        exact, rounded = a @ b, a.bfloat16() @ b.bfloat16()
        error = float((exact - rounded.float()).norm() / exact.norm())
        if not error < CLOSE:
            return None
        return _seconds(a, b) / _seconds(a.bfloat16(), b.bfloat16())
    except RuntimeError:
        return None


def _seconds(a: Tensor, b: Tensor) -> float:
    """The shortest time of a product."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        (a @ b).sum().item()
        best = min(best, time.perf_counter() - begin)
    return best

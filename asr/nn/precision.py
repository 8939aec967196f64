"""The number format of matrix products: processors differ in what a format gains by a factor of three hundred, so that
it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.errors import ConfigError
from asr.nn.int8 import Int8Linear, activation_steps, replace_linear

PRECISIONS = ("auto", "float32", "bf16", "int8")
FASTER = 1.3  # times, from which on fewer digits are worth it
CLOSE = 0.02  # largest error of a bf16 product, as a share of its norm
ROUNDS = 4
CHUNK = (26, 416, 1664)  # rows, inputs and outputs of the largest product of a chunk of live speech


class Bf16Linear(nn.Module):
    """`nn.Linear` for inference: products in bf16, whose weights are converted once; the type of its input comes out.

    Args:
        weight: `(outputs, inputs)`.
        bias: `(outputs,)`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = (
            None if tensor is None else nn.Parameter(tensor.detach().bfloat16(), requires_grad=False)
            for tensor in (weight, bias)
        )

    def forward(self, x: Tensor) -> Tensor:
        """`(..., inputs)` -> `(..., outputs)`."""
        return F.linear(x.bfloat16(), self.weight, self.bias).to(x.dtype)


def set_precision(blocks: nn.Module, precision: str, device: torch.device) -> str:
    """Makes the linear layers inside a module multiply in a format, for inference, and names it.

    `auto` is the fastest that this processor has at no price in words: bf16, int8 where activations keep 8 bits,
    float32 where neither is `FASTER`, and on every other device.

    Raises:
        ConfigError: no such format, or none that this torch and device have.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision == "auto":
        precision = fastest() if device.type == "cpu" else "float32"
    if precision == "bf16":
        replace_linear(blocks, Bf16Linear)
    elif precision == "int8":
        if device.type != "cpu" or activation_steps() is None:
            raise ConfigError(f"precision: this build of torch has no products in int8 for {device}; use float32")
        replace_linear(blocks, Int8Linear)
    return precision


@cache
def fastest() -> str:
    """The format in which this processor is fastest, of those that cost no words."""
    times = {"bf16": bf16_speed(torch.device("cpu"), CHUNK) or 0.0}
    if activation_steps() == 127:
        rows, inputs, outputs = CHUNK
        x, linear = torch.randn(rows, inputs), nn.Linear(inputs, outputs)
        packed = Int8Linear(linear.weight, linear.bias)
        times["int8"] = _seconds(lambda: linear(x)) / _seconds(lambda: packed(x))
    best = max(times, key=times.__getitem__)
    return best if times[best] >= FASTER else "float32"


@cache
def bf16_speed(device: torch.device, sizes: Sequence[int] | None = None) -> float | None:
    """How many times faster a product is in bf16 than in float32; None = the device has no use for bf16.

    `sizes` are its rows, inputs and outputs.
    """
    rows, inputs, outputs = sizes or ((8192, 2048, 2048) if device.type == "cuda" else (64, 384, 384))
    g = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=g).to(device) for size in ((rows, inputs), (outputs, inputs)))
    half_a, half_b = a.bfloat16(), b.bfloat16()
    try:
        few = slice(0, 4)  # a processor that has to imitate bf16 takes its time
        exact, rounded = F.linear(a[few], b[few]), F.linear(half_a[few], half_b[few])
        if not float((exact - rounded.float()).norm() / exact.norm()) < CLOSE:
            return None
        plain = _seconds(lambda: F.linear(a, b).sum().item())
        return plain / _seconds(lambda: F.linear(half_a, half_b).sum().item(), enough=2 * plain)
    except RuntimeError:
        return None


def _seconds(product: Callable[[], object], enough: float = float("inf")) -> float:
    """The shortest time of a product; not tried again where it took more than `enough` after the first time."""
    best = float("inf")
    with torch.inference_mode():
        for number in range(ROUNDS + 1):
            begin = time.perf_counter()
            product()
            took = time.perf_counter() - begin
            best = min(best, took)
            if number and best > enough:
                break
    return best

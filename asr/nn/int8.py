"""Matrix products in int8 on a processor: four to eight times as fast as in float32 where few rows meet large weights.

Weights are rounded to int8 with a scale a row, activations to 8 bits with a scale a row, to 7 where the processor adds
pairs of products in 16 bits, as those without VNNI do. Sums are exact, so that a row's result depends on no other row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from asr.nn.weights import quantise

FINE, COARSE = 127, 63  # steps of activations of 8 and of 7 bits


class Int8Linear(nn.Module):
    """`nn.Linear` for inference on a processor: float32 in and out, products in int8.

    Args:
        weight: `(outputs, inputs)`.
        bias: `(outputs,)`, added in float32.
        steps: of an activation, up and down; default: as many as are exact here.

    Raises:
        RuntimeError: this build of torch has no such products.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, steps: int | None = None) -> None:
        super().__init__()
        self.steps = steps or activation_steps() or COARSE
        values, scale = quantise(weight.detach())
        zeros = torch.zeros(len(values), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces another home for its quantised tensors
            tensor = torch._make_per_channel_quantized_tensor(values, scale.flatten().double(), zeros, 0)
            self._packed = torch.ops.quantized.linear_prepack(tensor, None)
        self._product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """`(..., inputs)` -> `(..., outputs)`."""
        peak = x.abs().amax(-1, keepdim=True).clamp_(min=1e-12)
        y = self._product(x / peak, 1 / self.steps, self.steps + 1, self._packed)
        return y.mul_(peak) if self.bias is None else torch.addcmul(self.bias, y, peak)


@cache
def activation_steps() -> int | None:
    """Steps up and down into which activations are cut: `FINE` where the largest values of that many add up as they
    should, else `COARSE`; None: this torch has no such products.
    """
    x, weight = torch.ones(1, 64), torch.ones(8, 64)
    for steps in (FINE, COARSE):
        try:
            product = Int8Linear(weight, steps=steps)(x)
        except (RuntimeError, AttributeError):
            return None
        if torch.allclose(product, x @ weight.T, rtol=0.01):
            return steps
    return None


def replace_linear(module: nn.Module, kind: Callable[[Tensor, Tensor | None], nn.Module]) -> None:
    """Replaces the linear layers inside a module by `kind(weight, bias)`."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, kind(child.weight, child.bias))

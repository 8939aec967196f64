"""Matrix products in int8 on a processor: four to eight times as fast as in float32 where few rows meet large weights.

Weights are rounded to int8 with a scale a row, activations to 7 bits with a scale a row: 7, because processors without
VNNI add pairs of products in 16 bits. Sums are exact, so that a row's result depends on no other row.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from asr.nn.weights import quantise

STEPS = 63  # of an activation, up and down
MIDDLE = 64  # what stands for 0


class Int8Linear(nn.Module):
    """`nn.Linear` for inference on a processor: float32 in and out, products in int8.

    Args:
        weight: `(outputs, inputs)`.
        bias: `(outputs,)`, added in float32.

    Raises:
        RuntimeError: this build of torch has no such products.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
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
        y = self._product(x / peak, 1 / STEPS, MIDDLE, self._packed)
        return y.mul_(peak) if self.bias is None else torch.addcmul(self.bias, y, peak)


def to_int8(module: nn.Module) -> bool:
    """Replaces the linear layers inside a module; False: this torch has no such products, nothing is changed."""
    try:
        Int8Linear(torch.ones(8, 8))(torch.ones(1, 8))
    except (RuntimeError, AttributeError):
        return False
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child.weight, child.bias))
    return True

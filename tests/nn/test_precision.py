"""The format of matrix products: close to float32 in each, chosen by what the processor does fastest."""

import pytest
import torch

from asr.errors import ConfigError
from asr.nn import precision
from asr.nn.int8 import FINE, Int8Linear, activation_steps
from asr.nn.precision import Bf16Linear, bf16_speed, fastest, set_precision
from tests.small import small_encoder

CPU = torch.device("cpu")
KINDS = {"bf16": Bf16Linear, "int8": Int8Linear}
int8 = pytest.param("int8", marks=pytest.mark.skipif(activation_steps() is None, reason="this torch has no int8"))


@pytest.mark.parametrize("name", ["float32", "bf16", int8])
def test_an_encoder_says_nearly_the_same_in_every_format_whole_and_in_chunks(name):
    frames = torch.randn(1, 90, 80)
    plain, other = small_encoder(), small_encoder()
    assert set_precision(other.blocks, name, CPU) == name
    assert any(isinstance(m, KINDS[name]) for m in other.modules()) if name in KINDS else True
    exact, rounded = plain.encode(frames).memory, other.encode(frames).memory
    error = float((rounded - exact).norm() / exact.norm())
    assert error < 0.05
    assert (error > 0) == (name != "float32")
    chunk, _ = other(frames[:, :39], own=8)
    assert chunk.memory.dtype == torch.float32
    assert chunk.memory.isfinite().all()


@pytest.mark.parametrize(
    ("bf16", "steps", "chosen"), [(None, FINE, ("int8", "float32")), (9.0, 63, ("bf16",)), (0.1, 63, ("float32",))]
)
def test_auto_is_what_is_fastest_here_at_no_price(monkeypatch, bf16, steps, chosen):
    monkeypatch.setattr(precision, "bf16_speed", lambda device, sizes: bf16)
    monkeypatch.setattr(precision, "activation_steps", lambda: steps)
    assert fastest.__wrapped__() in chosen


def test_other_devices_stay_with_float32():
    assert set_precision(small_encoder().blocks, "auto", torch.device("meta")) == "float32"


@pytest.mark.parametrize("name", ["float16", "", None])
def test_what_is_no_format_is_refused(name):
    with pytest.raises(ConfigError, match="precision: must be one of auto, float32, bf16, int8"):
        set_precision(small_encoder().blocks, name, CPU)


def test_int8_is_refused_where_torch_has_none(monkeypatch):
    monkeypatch.setattr(precision, "activation_steps", lambda: None)
    with pytest.raises(ConfigError, match="no products in int8"):
        set_precision(small_encoder().blocks, "int8", CPU)


def test_bf16_is_measured_or_absent():
    speed = bf16_speed(CPU)
    assert speed is None or speed > 0

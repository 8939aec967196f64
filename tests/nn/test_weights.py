"""Weights on disk: int8 within half a step, atomic, broken files told in one line."""

import pytest
import torch

from asr.errors import ModelError
from asr.nn.weights import OFFSET, SCALE, load_weights, quantise, quantise_all, save_weights


def test_int8_is_within_half_a_step_of_each_channel():
    weight = torch.randn(7, 5, 3) * torch.logspace(-3, 3, 7)[:, None, None]
    values, scale = quantise(weight)
    assert values.dtype == torch.int8
    assert ((values * scale - weight).abs() <= scale / 2 * 1.001).all()


def test_saved_weights_come_back(tmp_path):
    weights = {"large": torch.randn(100, 100), "norm": torch.randn(100), "zero": torch.zeros(100, 100)}
    save_weights(weights, tmp_path / "a.safetensors")
    assert all(torch.equal(load_weights(tmp_path / "a.safetensors")[k], v) for k, v in weights.items())
    save_weights(quantise_all(weights), tmp_path / "b.safetensors")
    back = load_weights(tmp_path / "b.safetensors")
    assert torch.equal(back["norm"], weights["norm"])
    assert torch.equal(back["zero"], weights["zero"])
    assert (back["large"] - weights["large"]).abs().max() < 0.02
    assert not list(tmp_path.glob("*.partial"))


def test_asymmetric_int8_has_an_offset(tmp_path):
    stored = {
        "x": torch.tensor([[-3, 4]], dtype=torch.int8),
        f"x{SCALE}": torch.tensor([[0.5]]),
        f"x{OFFSET}": torch.tensor([[1.0]]),
    }
    save_weights(stored, tmp_path / "w.safetensors")
    assert load_weights(tmp_path / "w.safetensors")["x"].tolist() == [[-0.5, 3.0]]


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(ModelError, match="no such weights"):
        load_weights(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="not a complete"):
        load_weights(tmp_path / "bad.safetensors")

"""Muon: matrices turn, everything else is AdamW's, and a run goes on from its checkpoint."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.training.checkpoint import Checkpoints, Progress
from asr.training.config import OptimiserConfig
from asr.training.muon import RMS, Muon, orthogonalised
from asr.training.optimiser import build_optimiser, parameter_groups
from tests.small import small_model


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99), st.floats(1e-3, 1e3))
def test_singular_values_come_near_one_and_directions_stay(rows, columns, seed, size):
    g = torch.Generator().manual_seed(seed)
    u, _, v = torch.linalg.svd(torch.randn(rows, columns, generator=g), full_matrices=False)
    values = torch.rand(min(rows, columns), generator=g) * 0.9 + 0.1
    turned = orthogonalised(size * u * values @ v)
    assert turned.shape == (rows, columns)
    inner = u.T @ turned @ v.T
    torch.testing.assert_close(inner, inner.diagonal().diag(), atol=1e-3, rtol=0)
    assert 0.65 < inner.diagonal().min() <= inner.diagonal().max() < 1.25


def test_a_gradient_of_nothing_changes_nothing():
    assert not orthogonalised(torch.zeros(3, 5)).any()


def matrices(**settings: float) -> dict[str, int]:
    """The parts of the parameters that Muon has."""
    groups = parameter_groups(small_model().requires_grad_(True), OptimiserConfig(**settings), 2)
    return {name: group["parts"] for group in groups for name in group["names"] if group["parts"]}


def test_muon_has_the_matrices_of_blocks():
    assert matrices() == {}
    block = {"att.qkv": 3, "att.proj": 1, "ff.up": 1, "ff.down": 1}
    assert matrices(muon=2.0) == {
        f"encoder.blocks.{layer}.{name}.weight": parts for layer in range(3) for name, parts in block.items()
    }


def test_each_part_changes_by_the_same_whatever_its_gradient():
    weight = torch.nn.Parameter(torch.zeros(12, 8))
    optimiser = Muon([{"params": [weight], "parts": 3, "weight_decay": 0.0}], lr=0.5)
    g = torch.Generator().manual_seed(0)
    weight.grad = torch.randn(12, 8, generator=g) * torch.tensor([1e-3, 1.0, 1e3]).repeat_interleave(4)[:, None]
    optimiser.step()
    for part in weight.detach().chunk(3):
        assert part.square().mean().sqrt().item() == pytest.approx(0.5 * RMS, rel=0.2)


def test_the_others_learn_as_with_adamw():
    """Norms, biases and the output layer, from the same gradients."""
    g, after = torch.Generator().manual_seed(1), []
    gradients = [torch.randn(p.shape, generator=g) for p in small_model().parameters()]
    for muon in (0.0, 1.0):
        model = small_model().requires_grad_(True)
        optimiser = build_optimiser(model, OptimiserConfig(muon=muon), 2)
        for _ in range(3):
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient.clone()
            optimiser.step()
        after.append(model.state_dict())
    turned = matrices(muon=1.0)
    for name, tensor in after[0].items():
        assert torch.equal(tensor, after[1][name]) == (name not in turned or not tensor.is_floating_point())


def test_weights_decay():
    weight = torch.nn.Parameter(torch.ones(4, 4))
    optimiser = Muon([{"params": [weight], "parts": 1, "weight_decay": 0.5}], lr=0.1)
    weight.grad = torch.zeros(4, 4)
    optimiser.step()
    torch.testing.assert_close(weight.detach(), torch.full((4, 4), 0.95))


def taught(steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A small model after some steps with Muon."""
    model = small_model().requires_grad_(True)
    optimiser = build_optimiser(model, OptimiserConfig(muon=1.0), 2)
    for number in range(steps):
        step(model, optimiser, number)
    return model, optimiser


def step(model: torch.nn.Module, optimiser: torch.optim.Optimizer, number: int) -> None:
    g = torch.Generator().manual_seed(number)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=g)
    optimiser.step()
    optimiser.zero_grad()


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    model, optimiser = taught(3)
    Checkpoints(tmp_path).save(model, optimiser, Progress(3))
    other, resumed = taught(0)
    Checkpoints(tmp_path).load_newest(other, resumed)
    for pair in ((model, optimiser), (other, resumed)):
        step(*pair, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))

"""What the scripts that train Vision Transformers share: one training loop, counting weights, and the plot of a run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

Draw = Callable[[int], tuple[Tensor, Tensor]]  # step -> inputs, targets
Loss = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> a number

LINES = 20  # of progress in a run where there is no terminal


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
        steps: batches.
        minutes: time after which training ends, however many batches that makes.
        learning_rate: the highest, reached after the warm-up; then it falls to zero along a cosine.
        weight_decay: of matrices; vectors have none.
        warm_up: share of the steps.
        clip: largest norm of the gradient.
        average: of the weights that are kept, each step's share of the past (exponential moving average); 0 = none.
    """

    steps: int
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warm_up: float = 0.1
    clip: float = 1.0
    average: float = 0.0
    minutes: float = math.inf

    def progress(self, step: int, seconds: float) -> float:
        """How much of the training is done, 0 to 1."""
        return min(1.0, max(step / self.steps, seconds / 60 / self.minutes))

    def rate(self, progress: float) -> float:
        """The learning rate at a point of the training."""
        if progress < self.warm_up:
            return self.learning_rate * max(progress, 1e-3) / self.warm_up
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (progress - self.warm_up) / (1 - self.warm_up)))


def fit(
    model: nn.Module, draw: Draw, loss_of: Loss, recipe: Recipe, report: Callable[[int], str] | None = None
) -> list[float]:
    """Trains a model in place and returns the loss of each step.

    Args:
        model: what to train.
        draw: makes a batch.
        loss_of: of outputs and targets.
        recipe: how.
        report: called for each line of progress, in evaluation mode; what it returns is printed.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
    mean = {name: p.detach().clone() for name, p in model.named_parameters()} if recipe.average else {}
    losses: list[float] = []
    begun = time.monotonic()
    for step in range(recipe.steps):
        done = recipe.progress(step, time.monotonic() - begun)
        if done == 1:
            break
        model.train()
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(done)
        inputs, targets = draw(step)
        loss = loss_of(model(inputs), targets)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        losses.append(loss.item())
        for name, p in model.named_parameters() if mean else ():
            mean[name].lerp_(p.detach(), 1 - min(recipe.average, (step + 1) / (step + 10)))
        if (step + 1) % max(1, recipe.steps // LINES) == 0 or sys.stderr.isatty():
            _tell(model, step + 1, losses, recipe, begun, report)
    model.eval()
    with torch.no_grad():
        for name, p in model.named_parameters() if mean else ():
            p.copy_(mean[name])
    return losses


def _tell(
    model: nn.Module, step: int, losses: list[float], recipe: Recipe, begun: float, report: Callable[[int], str] | None
) -> None:
    recent = losses[-max(1, recipe.steps // LINES) :]
    passed = time.monotonic() - begun
    line = f"step {step}/{recipe.steps}  loss {sum(recent) / len(recent):.3f}  {passed:.0f} s"
    stays = step % max(1, recipe.steps // LINES) == 0
    if report is not None and stays:
        model.eval()
        line += f"  {report(step)}"
    print(f"\r{line}" if sys.stderr.isatty() else line, end="\n" if stays else "", file=sys.stderr, flush=True)


def count(model: nn.Module) -> int:
    """Number of weights."""
    return sum(p.numel() for p in model.parameters())


def plot_losses(runs: dict[str, list[float]], path: Path) -> None:
    """A picture of losses by step, smoothed, a curve for each run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, losses in runs.items():
        width = max(1, len(losses) // 100)
        smooth = torch.tensor(losses).unfold(0, width, width).mean(1).tolist()
        axes.plot([width * (i + 0.5) for i in range(len(smooth))], smooth, label=name)
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=120)

"""What the scripts that train Vision Transformers share: their options, one training loop, and the plot of a run."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from asr.training.average import WeightAverage
from asr.training.config import OptimiserConfig, ScheduleConfig
from asr.training.optimiser import build_optimiser, learning_rate

LINES = 20  # of progress in a run where there is no terminal


def training_options(description: str, *, steps: int, rate: float, run: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that all of these scripts have; `run`: it must be named where to write."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=run, help="folder to write to")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--learning-rate", type=float, default=rate)
    parser.add_argument("--minutes", type=float, help="end after so much time at the latest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def recipe(options: argparse.Namespace, average: float) -> tuple[OptimiserConfig, ScheduleConfig]:
    """How these scripts train: AdamW, whose rate rises for a tenth of the steps and falls to zero along a cosine."""
    schedule = ScheduleConfig(options.steps, math.ceil(options.steps / 10), floor=0, time_limit=options.minutes)
    return OptimiserConfig(options.learning_rate, weight_decay=0.05, ema=average), schedule


def fit(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    config: OptimiserConfig,
    schedule: ScheduleConfig,
    report: Callable[[], str] | None = None,
) -> list[float]:
    """Trains a model in place and returns the loss of each step; the averaged weights are kept, where there are any.

    Args:
        model: what to train.
        loss_of: step -> the loss of a new batch.
        config: of the optimiser.
        schedule: where the time limit comes before the last step, the learning rate falls as much faster.
        report: called for each line of progress, in evaluation mode; what it returns is printed.
    """
    steps, limit = schedule.steps, schedule.time_limit or math.inf
    optimiser = build_optimiser(model, config, layers=0)
    mean = WeightAverage(model, config.ema) if config.ema else None
    every, losses, begun = max(1, steps // LINES), [], time.monotonic()
    for step in range(1, steps + 1):
        passed = (time.monotonic() - begun) / 60 / limit
        if passed >= 1:
            break
        model.train()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(max(step, passed * steps), config.learning_rate, schedule)
        loss = loss_of(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        losses.append(loss.item())
        if mean is not None:
            mean.update(step)
        stays = step % every == 0
        if stays or sys.stderr.isatty():
            recent, seconds = losses[-every:], time.monotonic() - begun
            line = f"step {step}/{steps}  loss {sum(recent) / len(recent):.3f}  {seconds:.0f} s"
            if report is not None and stays:
                model.eval()
                line += f"  {report()}"
            print(f"\r{line}" if sys.stderr.isatty() else line, end="\n" if stays else "", file=sys.stderr, flush=True)
    if mean is not None:
        mean.put()
    model.eval()
    return losses


def count(model: nn.Module) -> int:
    """Number of weights."""
    return sum(p.numel() for p in model.parameters())


def plot_losses(losses: list[float], path: Path) -> None:
    """A picture of losses by step, smoothed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    width = max(1, len(losses) // 100)
    smooth = torch.tensor(losses).unfold(0, width, width).mean(1).tolist()
    axes.plot([width * (i + 0.5) for i in range(len(smooth))], smooth)
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    figure.savefig(path, dpi=120)

"""Checkpoints: complete or not there at all, without pickles, readable on any device.

A checkpoint is a folder `step-00001000` of `model.safetensors`, `optimiser.safetensors`, `state.json` and, where the
weights are averaged, `average.safetensors`. It is written under another name, flushed to the disk and renamed, so that
a full disk or a kill leaves the last good one. There is no state of random generators to keep: all draws of a batch are
seeded by (seed, epoch, number of the batch).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from asr.errors import AsrError, ModelError
from asr.files import PARTIAL, sync, write_whole
from asr.nn.weights import save_weights
from asr.training.average import WeightAverage

AVERAGE = "average.safetensors"
MODEL, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


@dataclass
class Progress:
    """How far a run has come.

    Attributes:
        step: updates done.
        epoch: the epoch of the next batch, counted from 0.
        batch: the number of the next batch in it.
        audio_seconds: audio trained on so far (seconds).
        best_wer: lowest dev word error rate (percent); none = not measured yet.
        best_step: where it was measured.
        batches: fingerprint of the batches that `batch` counts.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    audio_seconds: float = 0.0
    best_wer: float | None = None
    best_step: int | None = None
    batches: str = ""


class Checkpoints:
    """The checkpoints of a run: the newest `keep`, and the best by dev word error rate."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def all(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return sorted(p for p in self.folder.glob("step-*") if p.suffix != PARTIAL and (p / STATE).is_file())

    def save(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        progress: Progress,
        average: WeightAverage | None = None,
    ) -> Path:
        """Writes a checkpoint and removes those that are no longer kept.

        Raises:
            AsrError: it cannot be written, for instance because the disk is full; older ones are still there.
        """
        target = self.folder / f"step-{progress.step:08d}"
        partial = target.with_name(target.name + PARTIAL)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._clear_partial()
            partial.mkdir()
            save_weights(learned_tensors(model), partial / MODEL, durable=True)
            save_weights(optimiser_tensors(optimiser), partial / OPTIMISER, durable=True)
            if average is not None:
                save_weights(average.tensors, partial / AVERAGE, durable=True)
            write_whole(partial / STATE, json.dumps(asdict(progress), indent=1), durable=True)
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
            sync(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            last = self.all()
            kept = f"{last[-1]} is still good: make room and use --resume" if last else "make room and start again"
            raise AsrError(f"{target}: the checkpoint cannot be written: {error.strerror or error}; {kept}") from error
        self._prune(progress)
        return target

    def load_newest(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, average: WeightAverage | None = None
    ) -> Progress | None:
        """Puts the newest readable checkpoint into model, optimiser and average; None when there is none.

        Raises:
            ModelError: there are checkpoints, but none can be read or fits the model.
        """
        reason: Exception | None = None
        for path in reversed(self.all()):
            try:
                return load_checkpoint(path, model, optimiser, average)
            except ModelError as error:
                reason = reason or error
        if reason:
            raise reason
        return None

    def _prune(self, progress: Progress) -> None:
        best = f"step-{progress.best_step:08d}" if progress.best_step is not None else ""
        for path in self.all()[: -self.keep]:
            if path.name != best:
                shutil.rmtree(path, ignore_errors=True)

    def _clear_partial(self) -> None:
        for path in self.folder.glob("step-*" + PARTIAL):
            shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, average: WeightAverage | None = None
) -> Progress:
    """Puts one checkpoint into model, optimiser and average, on whatever device they are.

    Where it has no average, that begins with its weights.

    Raises:
        ModelError: it cannot be read or does not fit.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights, moments = load_file(path / MODEL), load_file(path / OPTIMISER)
        progress = Progress(**json.loads((path / STATE).read_text("utf-8")))
        model.load_state_dict(model.state_dict() | weights)
        _restore_optimiser(optimiser, moments)
        if average is not None and (path / AVERAGE).is_file():
            average.load(load_file(path / AVERAGE))
        elif average is not None:
            average.begin()
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: a damaged checkpoint ({str(error).splitlines()[0]})") from error
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise ModelError(f"{path}: the checkpoint does not fit the model of the configuration ({reason})") from error
    return progress


def learned_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's tensors without its frozen parameters, which a run takes from where it started."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as `parameter name/kind` (kind: exp_avg, exp_avg_sq, step).

    Parameters are called as the groups' `names` call them; what is no tensor follows from the configuration.
    """
    return {
        f"{name}/{kind}": value
        for group in optimiser.param_groups
        for name, parameter in zip(group["names"], group["params"], strict=True)
        for kind, value in optimiser.state[parameter].items()
    }


def _restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state = optimiser.state_dict()
    names = [name for group in optimiser.param_groups for name in group["names"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    number_of = dict(zip(names, numbers, strict=True))
    state["state"] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        state["state"].setdefault(number_of[name], {})[kind] = value
    optimiser.load_state_dict(state)

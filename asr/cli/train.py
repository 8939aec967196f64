"""`asr train`: a model from manifests of audio and text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def train(
    config: Annotated[Path, typer.Argument(help="YAML file, such as configs/tiny.yaml.")],
    run: Annotated[Path, typer.Option(help="Folder for checkpoints, log and model.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the run folder.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Delete the run that is in the folder, begin again.")
    ] = False,
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer on Python 3.10)
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value, such as optimiser.learning_rate=1e-3."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ..., or auto: a GPU where there is one.")] = "auto",
    threads: Annotated[Optional[int], typer.Option(min=1, help="Processor threads.")] = None,  # noqa: UP045
    time_limit: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="MINUTES", help="Save and stop after so many minutes."),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Curves and example transcripts in RUN/tensorboard.")
    ] = False,
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights, batches and augmentation.")] = None,  # noqa: UP045
) -> None:
    """Train a model on your own recordings: JSON lines of audio_filepath, duration and text, audio beside them.

    Ctrl-C and SIGTERM finish the step, save and stop; --resume goes on with the same batches. The model is in RUN/model
    for `asr transcribe --model RUN/model`. Several GPUs: torchrun --nproc-per-node 8 -m -- asr train CONFIG --run RUN.
    """
    from asr.training.load_config import load_config

    overrides = list(set_ or [])
    overrides += [] if seed is None else [f"seed={seed}"]
    overrides += [] if time_limit is None else [f"schedule.time_limit={time_limit}"]
    settings = load_config(config, overrides)

    import torch

    from asr.training.run import train as train_run
    from asr.training.setup import choose_device

    if threads:
        torch.set_num_threads(threads)
    train_run(settings, run, choose_device(device), resume=resume, restart=restart, board=tensorboard)

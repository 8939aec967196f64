"""`asr train`: a model from manifests of audio and text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from asr.cli.options import MACHINE, Threads


def train(
    config: Annotated[Path, typer.Argument(help="YAML file, such as configs/tiny.yaml.")],
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="Folder for checkpoints, log and model.")],
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
    time_limit: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--time-limit", metavar="MINUTES", help="Save and stop after so many minutes."),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Curves and example transcripts in RUN/tensorboard.")
    ] = False,
    seed: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--seed", metavar="N", help="Seed of weights, batches and augmentation."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="cpu, cuda, cuda:1, ..., or auto: a GPU where there is one.",
            rich_help_panel=MACHINE,
        ),
    ] = "auto",
    threads: Threads = None,
) -> None:
    """Train a model on your own recordings: JSON lines of audio_filepath, duration and text, audio beside them.

    $ asr train configs/tiny.yaml --run runs/mine
    $ asr train configs/tiny.yaml --run runs/mine --resume

    Ctrl-C and SIGTERM finish the step, save and stop; --resume goes on with the
    same batches. The model is in RUN/model: `asr transcribe --model RUN/model`.
    Several GPUs: torchrun --nproc-per-node 8 -m -- asr train CONFIG --run RUN.
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

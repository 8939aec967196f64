"""What `asr train` trains, made from the configuration: model, batches of speech, the forward pass, the dev set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from asr.errors import AsrError, ConfigError, ManifestError
from asr.training.batching import BucketedBatches
from asr.training.config import TrainConfig
from asr.training.data import BatchReader, Recordings
from asr.training.dev import DevSet
from asr.training.forward import Forward
from asr.training.loop import Trainer
from asr.training.memory import MemoryLimit
from asr.training.noise import NoiseBank
from asr.training.precision import use_bf16
from asr.training.progress import Display
from asr.training.run_folder import RunFolder
from asr.training.selection import select
from asr.training.setup import (
    add_decoder,
    build_model,
    decoder_notes,
    open_manifests,
    prepare_tokenizer,
    start_model,
    tokenizer_notes,
)
from asr.training.teaching import Teaching
from asr.training.team import Team


class SpeechRun:
    """A run of `asr train` before its first step.

    All randomness of a batch is seeded by (seed, epoch, number of the batch).

    Args:
        config: the configuration.
        folder: the run's folder, opened.
        device: where to train.
        team: the processes that train together; default: this one alone.

    Raises:
        AsrError: data, tokenizer, teacher or the model to start from cannot be used.
    """

    def __init__(self, config: TrainConfig, folder: RunFolder, device: torch.device, team: Team | None = None) -> None:
        self.config, self.folder = config, folder
        self.team = team = team or Team(device=device)
        self.display = Display(config.schedule.steps, silent=not team.leads)
        self.notes = folder.settle_config(config) if team.leads else []  # lines to show before training
        manifests = open_manifests(config.data.train)
        if not manifests:
            raise ManifestError("data.train: names no manifest: give one with --set 'data.train=[my.jsonl]'")
        started = start_model(config)
        with team.leader_first():
            tokenizer = prepare_tokenizer(config.tokenizer, manifests, config.data, folder.pieces, started)
        model = started or build_model(config, tokenizer)
        reads = model.decoder is not None
        if config.decoder.layers:
            add_decoder(model, config)
        self.model = model.to(device)
        a, features = config.augment, model.config.features
        noise = NoiseBank.load(a.noise, features.sample_rate, a.noise_seconds).to(device)
        torch.manual_seed(config.seed)
        teaching = Teaching(config.teacher, config.losses, model, device, reads=reads)
        bf16, why = team.gather(use_bf16(config.precision, device))[0]
        self.notes.append(why)
        self.forward = Forward(model, config, teaching, noise, MemoryLimit(self.display.line), bf16)
        self.notes += tokenizer_notes(config, tokenizer)
        train_set = select(manifests, tokenizer, config.data, features)
        self.notes += [f"left out: {count} {reason}" for reason, count in train_set.left_out.items()]
        if config.decoder.layers:
            self.notes += decoder_notes(train_set, model.decoder_pieces)
        tail, d = config.data.tail_seconds, config.data
        weights = np.asarray(d.weights)[train_set.manifest] if d.weights else None
        plan = BucketedBatches(train_set.durations + tail, d.batch_seconds, d.buckets, config.seed, weights)
        if len(plan.epoch(0)) < team.size:
            raise ConfigError(
                f"data.batch_seconds: {team.size} processes need a batch each, and an epoch has only "
                f"{len(plan.epoch(0))}: lower it, or start fewer processes"
            )
        reader = BatchReader(train_set, features.sample_rate, features.hop, tail, strict=True)
        share, pin = (team.rank, team.size), device.type == "cuda"
        self.batches = Recordings(reader, plan, d.workers, pin, share, self.display.line)
        self.dev_set = DevSet(config, self.forward, self.display.line) if d.dev or d.held_out else None

    def trainer(self, *, board: bool = False) -> Trainer:
        """What trains it; `board`: with curves and example transcripts for TensorBoard."""
        return Trainer(
            self.config,
            self.folder,
            self.model,
            self.batches,
            self.forward,
            dev_set=self.dev_set,
            team=self.team,
            display=self.display,
            notes=self.notes,
            board=board,
        )


def train(
    config: TrainConfig,
    folder: Path,
    device: torch.device,
    *,
    resume: bool = False,
    restart: bool = False,
    board: bool = False,
) -> None:
    """Runs the whole of `asr train`, alone or as one of `torchrun`'s processes.

    Raises:
        AsrError: whatever the user can mend.
    """
    from safetensors import SafetensorError

    team = Team.join(device)
    run = RunFolder(folder)
    if team.leads:
        run.open(resume=resume, restart=restart)
    team.wait()
    try:
        SpeechRun(config, run, device, team).trainer(board=board).run()
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise AsrError(
            f"{folder}: the run has ended: {reason}; go on from its last checkpoint with --resume when that is mended"
        ) from error
    team.leave()

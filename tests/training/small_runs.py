"""Small runs inside of the test's own process: from nothing, and from a small model with a decoder and a teacher."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from asr.nn.decoder import AttentionDecoder
from asr.nn.speech_model import SpeechModel
from asr.nn.weights import save_weights
from asr.training.load_config import load_config
from asr.training.loop import Trainer
from asr.training.run import SpeechRun
from asr.training.run_folder import RunFolder
from asr.training.teacher import CONFIG, WEIGHTS, Teacher, TeacherConfig
from tests.small import DECODER
from tests.training.run_asr import CONFIGS, SMALL

SIZES = TeacherConfig(d_model=32, heads=4, inner=48, layers=2, rotary_dim=4)


def small_teacher() -> Teacher:
    torch.manual_seed(3)
    return Teacher(SIZES).eval().requires_grad_(False)


def make(corpus: Path, folder: Path, *more: str, resume: bool = False) -> Trainer:
    """A run from nothing, ready to go."""
    run = RunFolder(folder)
    run.open(resume=resume, restart=False)
    config = load_config(CONFIGS / "tiny.yaml", [*SMALL, f"data.train=[{corpus}]", "schedule.steps=40", *more])
    return SpeechRun(config, run, torch.device("cpu")).trainer()


def make_start(folder: Path, corpus: Path) -> list[str]:
    """Writes a model with an attention decoder and a teacher, and returns the settings of a run from them."""
    model = make(corpus, folder / "first", "schedule.warmup=1").model
    sizes, english = model.config.encoder, SpeechModel.load("en")
    decoder = replace(DECODER, d_model=sizes.d_model, vocabulary=len(english.decoder_pieces))
    model.config = replace(model.config, decoder=decoder)
    torch.manual_seed(0)
    model.decoder, model.decoder_pieces = AttentionDecoder(decoder), english.decoder_pieces
    model.save(folder / "model")
    teacher = Teacher(replace(SIZES, d_model=sizes.d_model, layers=sizes.layers))
    (folder / "teacher").mkdir()
    (folder / "teacher" / CONFIG).write_text(json.dumps(vars(teacher.config)))
    save_weights(teacher.state_dict(), folder / "teacher" / WEIGHTS)
    return [
        *(s for s in SMALL if not s.startswith("model.")),
        f"data.train=[{corpus}]",
        f"data.dev=[{corpus}]",
        f"start={folder / 'model'}",
        f"teacher.folder={folder / 'teacher'}",
        "losses.distillation=1",
        "losses.decoder=1",
        f"losses.taps=[0,{sizes.layers}]",
        "schedule.steps=4",
        "schedule.warmup=1",
        "schedule.checkpoint_every=2",
        "optimiser.frozen_blocks=1",
    ]


def prepare(folder: Path, settings: list[str], name: str, *, resume: bool = False) -> Trainer:
    """A run with these settings alone, ready to go."""
    run = RunFolder(folder / name)
    run.open(resume=resume, restart=False)
    path = folder / "empty.yaml"
    path.write_text("data:\n  workers: 0\n")
    return SpeechRun(load_config(path, settings), run, torch.device("cpu")).trainer()


def train(folder: Path, settings: list[str], name: str, *, resume: bool = False) -> Trainer:
    """The same, done."""
    trainer = prepare(folder, settings, name, resume=resume)
    trainer.run()
    return trainer

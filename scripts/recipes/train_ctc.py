#!/usr/bin/env python3
"""Trains the CTC branch alone, many times over the same speech: the blocks below it are frozen and run only once.

    python scripts/recipes/train_ctc.py configs/base-en-ctc.yaml --run runs/ctc \\
        --set data.train=[a.jsonl,b.jsonl] --set data.dev=[dev.jsonl]

The batches of the first epoch are augmented, cut into chunks and sent through the frozen blocks; what the branch reads
(`StreamingEncoder.trunk`) is kept in the run's folder, 0.2 GB an hour of speech. A step on a kept batch costs a fifth
of one on sound. `asr train` with `optimiser.frozen_blocks` does the same without keeping anything. Started again, the
script goes on keeping where it was, and trains anew: another `start` or other data want another folder.

Several processes keep in parallel, each in a run of its own (`--keep-only`, with other data or another `seed`), and one
trains on what all have kept (`--also RUN`). What the blocks made of the sound cannot be augmented any more, but
stretches of it can be hidden (`--hide`), as SpecAugment does with frames.

`--noise` adds batches without words, so that the branch learns that noise is no speech: half recorded, half made by
scripts/sounds.py, as for the speech gate.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from asr.errors import AsrError, ConfigError
from asr.nn.speech_model import DECODER, SpeechModel, model_folder
from asr.nn.weights import save_weights
from asr.training.batching import draw_seed
from asr.training.config import TrainConfig
from asr.training.data import Batch, read_batches
from asr.training.forward import Setting
from asr.training.load_config import load_config
from asr.training.loop import Trainer
from asr.training.losses import ctc_sum
from asr.training.optimiser import learning_rate
from asr.training.progress import finite
from asr.training.run_folder import RunFolder
from asr.training.sounds import RATE, load_sounds, split_noises, synthetic_noise

BATCHES, NOISE_BATCHES = "[0-9]*.safetensors", "noise-*.safetensors"
SHOWN_EVERY = 100  # steps
NOISES, NOISE_SECONDS = 7, 5  # in a batch without words
NOISE_SHARE = 0.16  # of the steps of a pass
STRETCHES, HIDDEN_SHARE = 3, 0.06  # hidden in an utterance, and the most of it that each is
POSITIONS_A_PIECE = 4  # by which the loss of a batch without words is divided, as if it had some


@dataclass(frozen=True)
class Kept:
    """A batch as the CTC branch reads it.

    Attributes:
        stream: `(rows, time, d_model)` of `StreamingEncoder.trunk`, in half precision.
        lengths: `(batch,)` positions of each utterance.
        targets: `(batch, pieces)`, 0 after the end of each row.
        target_lengths: `(batch,)`.
        masked: positions in all, chunk, look-ahead and left context, with which the stream was made.
    """

    stream: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    masked: Tensor

    @classmethod
    @torch.no_grad()
    def make(cls, batch: Batch, trainer: Trainer) -> Kept:
        """Augments a batch and sends it through the frozen blocks, in a setting drawn for it."""
        config, encoder = trainer.config, trainer.model.encoder
        seed = draw_seed(config.seed, batch.epoch, batch.number)
        torch.manual_seed(seed)
        setting = Setting.draw(config.chunks, random.Random(seed))
        frames, lengths = trainer.forward.frames(batch, augment=True)
        stream, lengths = encoder.trunk(frames, lengths, **asdict(setting))
        size = int(lengths.max())
        left_context = encoder.config.left_context if setting.left_context is None else setting.left_context
        masked = torch.tensor([size, setting.chunk, setting.look_ahead, left_context])
        return cls(stream.half().contiguous(), lengths, batch.targets, batch.target_lengths, masked)

    def loss(self, model: SpeechModel, hide: int) -> Tensor:
        """CTC of the batch over pieces, as in `asr.training.losses`; stretches of up to `hide` positions are hidden."""
        size, chunk, look_ahead, left_context = self.masked.tolist()
        stream = self.stream.float()
        if hide:
            stream = stream.masked_fill(self.hidden(hide)[..., None], 0)
        log_probs = model.encoder.branch(
            stream, self.lengths, size, chunk=chunk, look_ahead=look_ahead, left_context=left_context
        )
        total = ctc_sum(log_probs, self.lengths, self.targets, self.target_lengths)
        return total / (self.target_lengths.sum() or self.lengths.sum() / POSITIONS_A_PIECE)

    def hidden(self, width: int) -> Tensor:
        """Which positions of the stream's rows `(rows, time)` are hidden, alike in all chunks that see them.

        Each utterance has `STRETCHES` of up to `width` positions, none longer than `HIDDEN_SHARE` of it.
        """
        rows, time, _ = self.stream.shape
        batch, chunk = len(self.lengths), int(self.masked[1])
        chunks = rows // batch
        positions = chunk * torch.arange(chunks)[:, None] + torch.arange(time)
        longest = (HIDDEN_SHARE * self.lengths).long().clamp(max=width)[:, None, None]
        hidden = torch.zeros(batch, chunks, time, dtype=torch.bool)
        for _ in range(STRETCHES):
            long, first = (torch.rand(batch, 1, 1) for _ in range(2))
            inside = positions - (first * self.lengths[:, None, None]).long()
            hidden |= (inside >= 0) & (inside < (long * (longest + 1)).long())
        return hidden.flatten(0, 1)


def noise_batches(manifest: Path, count: int, seed: int) -> Iterator[Batch]:
    """Batches without words; of the recordings those that scripts/recipes/held_out_noise.py does not hold out."""
    recorded, _ = split_noises(load_sounds(manifest))
    size, draw = NOISE_SECONDS * RATE, random.Random(seed)
    lengths = torch.full((NOISES,), size)
    nothing, none = torch.zeros(NOISES, 1, dtype=torch.int64), torch.zeros(NOISES, dtype=torch.int64)
    for number in range(count):
        torch.manual_seed(draw_seed(seed, number))
        rows = [
            draw.choice(recorded).wave() if draw.random() < 0.5 else synthetic_noise(size, draw) for _ in range(NOISES)
        ]
        samples = torch.stack([torch.nn.functional.pad(row[:size], (0, max(0, size - len(row)))) for row in rows])
        samples = samples / samples.square().mean(1, keepdim=True).sqrt().clamp(min=1e-4) * 0.05
        names = ("noise",) * NOISES
        yield Batch(samples, lengths, lengths, nothing, none, none, names, (), 1, number)


def keep_noise(trainer: Trainer, folder: Path, manifest: Path, count: int) -> list[Path]:
    """The files of `count` batches without words, made where they are not there yet."""
    names = [folder / f"noise-{number:06d}.safetensors" for number in range(count)]
    if not all(name.exists() for name in names):
        for name, batch in zip(names, noise_batches(manifest, count, trainer.config.seed), strict=True):
            save_weights(vars(Kept.make(batch, trainer)), name)
    return names


def keep(trainer: Trainer, folder: Path, count: int | None) -> list[Path]:
    """The files of the first `count` batches (default: all) of the first epoch, made where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{number:06d}.safetensors" for number in range(len(trainer.plan.epoch(0)))][:count]
    first = sum(1 for name in names if name.exists())  # they are made in order
    begun, seconds = time.monotonic(), 0.0
    workers = trainer.config.data.workers
    for batch in read_batches(trainer.reader, trainer.plan, 0, first, workers=workers):
        if batch.number >= len(names):
            break
        if not len(batch):
            continue
        save_weights(vars(Kept.make(batch, trainer)), names[batch.number])
        seconds += batch.seconds(trainer.model.config.features.sample_rate)
        if (batch.number + 1) % SHOWN_EVERY == 0:
            rate = seconds / (time.monotonic() - begun)
            print(f"kept {batch.number + 1} of {len(names)} batches, {rate:.0f} s of audio a second", flush=True)
    return [name for name in names if name.exists()]


def train(trainer: Trainer, files: list[Path], noises: list[Path], dropout: float, hide: int) -> None:
    """Steps over kept batches in passes, each in another order; writes the best model by dev CTC, without dev the last.

    Raises:
        ConfigError: nothing is kept.
    """
    if not files:
        raise ConfigError("--batches: nothing is kept to train on")
    config, model, run = trainer.config, trainer.model, trainer.run_folder
    schedule, accumulate, draw = config.schedule, config.optimiser.accumulate, random.Random(config.seed)
    print(f"{len(files)} batches of speech, {len(noises)} of noise", flush=True)
    kept, noise = ([Kept(**load_file(file)) for file in group] for group in (files, noises))
    if noise:
        share = NOISE_SHARE / (1 - NOISE_SHARE) * len(kept)
        kept += draw.choices(noise, k=max(1, round(share)))
    for block in model.encoder.blocks[model.config.encoder.layers :]:
        block.dropout.p = dropout
    best, order, losses, begun = None, [], [], time.monotonic()
    with open(run.log, "w", encoding="utf-8") as log:
        for step in range(1, schedule.steps + 1):
            rate = learning_rate(step, config.optimiser.learning_rate, schedule)
            for group in trainer.optimiser.param_groups:
                group["lr"] = rate * group["scale"]
            model.train()
            losses.append(0.0)
            for _ in range(accumulate):
                order = order or draw.sample(range(len(kept)), len(kept))
                loss = kept[order.pop()].loss(model, hide) / accumulate
                loss.backward()
                losses[-1] += loss.item()
            norm = float(clip_grad_norm_(model.parameters(), config.optimiser.clip))
            if finite(norm) is not None:
                trainer.optimiser.step()
            trainer.optimiser.zero_grad(set_to_none=True)
            print(json.dumps({"step": step, "loss": losses[-1], "gradient_norm": norm}), file=log, flush=True)
            if step % SHOWN_EVERY == 0:
                left = (time.monotonic() - begun) / step * (schedule.steps - step)
                recent = sum(losses[-SHOWN_EVERY:]) / SHOWN_EVERY
                print(f"step {step}/{schedule.steps}: loss {recent:.3f}, {left / 60:.0f} min left", flush=True)
            if step != schedule.steps and step % schedule.dev_every:
                continue
            if trainer.dev_set:
                result = trainer.dev_set.measure(model, trainer.forward, print)
                better = best is None or result.score <= best
                print(f"step {step}: dev WER {result}{', the best so far' if better else ''}", flush=True)
                if not better:
                    continue
                best = result.score
            save(trainer, run.model)


def save(trainer: Trainer, folder: Path) -> None:
    """The model as it stands, with the attention decoder that it started from."""
    decoder = model_folder(trainer.config.start) / DECODER
    trainer.model.save(folder, half=True, decoder=decoder if decoder.exists() else None)


def kept_before(runs: Sequence[Path], pattern: str) -> list[Path]:
    """The batches that other runs have kept.

    Raises:
        ConfigError: one has none.
    """
    for run in runs:
        if not any((run / "kept").glob(BATCHES)):
            raise ConfigError(f"--also {run}: nothing is kept there")
    return [file for run in runs for file in sorted((run / "kept").glob(pattern))]


def start(config: TrainConfig, args: argparse.Namespace) -> None:
    """Keeps and trains.

    Raises:
        AsrError: whatever the user can mend.
    """
    layers = SpeechModel.load(config.start).config.encoder.layers if config.start else 0
    if not layers or config.optimiser.frozen_blocks != layers:
        raise ConfigError(f"optimiser.frozen_blocks: all {layers or ''} blocks of a model (`start`) must be frozen")
    also, also_noise = (kept_before(args.also, pattern) for pattern in (BATCHES, NOISE_BATCHES))
    run = RunFolder(args.run)
    run.path.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(config, run, torch.device("cpu"))
    trainer.model.decoder = None  # dev measures what CTC writes
    for note in trainer.notes:
        print(note)
    trainer.model.eval()
    folder = run.path / "kept"
    files = keep(trainer, folder, args.batches)
    noises = keep_noise(trainer, folder, args.noise, -(-len(files) // 10)) if args.noise else []
    if not args.keep_only:
        train(trainer, files + also, noises + also_noise, args.dropout, args.hide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in asr train")
    parser.add_argument("--batches", type=int, help="how many are kept; default: the whole epoch")
    parser.add_argument("--noise", type=Path, metavar="MANIFEST", help="recordings of noise, to be silent about")
    parser.add_argument("--dropout", type=float, default=0.1, help="in the branch's block")
    parser.add_argument("--hide", type=int, default=10, metavar="POSITIONS", help="longest stretch that is hidden")
    parser.add_argument("--keep-only", action="store_true", help="keep, and train later")
    parser.add_argument(
        "--also", type=Path, action="append", default=[], metavar="RUN", help="train on what that run kept, too"
    )
    args = parser.parse_args()
    try:
        start(load_config(args.config, args.set), args)
    except AsrError as error:
        raise SystemExit(f"train_ctc: {error}") from error


if __name__ == "__main__":
    main()

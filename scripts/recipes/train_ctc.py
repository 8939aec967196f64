#!/usr/bin/env python3
"""Trains the CTC branch alone, many times over the same speech: the blocks below it are frozen and run only once.

    python scripts/recipes/train_ctc.py configs/base-en-ctc.yaml --run runs/ctc \\
        --set 'data.train=[runs/mine/train.jsonl]' --set 'data.dev=[runs/mine/dev.jsonl]'

The batches of the first epoch are augmented, cut into chunks and sent through the frozen blocks; what the branch reads
is kept in the run's folder, 0.2 GB an hour of speech. A step on a kept batch costs a fifth of one on sound. `asr train`
with `optimiser.frozen_blocks` does the same without keeping anything. Started again, the script goes on keeping where
it was, and trains anew, or goes on with `--resume`: another `start` or other data want another folder.

Several processes keep in parallel, each in a run of its own (`--keep-only`, with other data or another `seed`), and one
trains on what all have kept (`--also RUN`). What the blocks made of the sound cannot be augmented any more, but
stretches of it can be hidden (`--hide`), as SpecAugment does with frames.

`--noise` adds batches without words, so that the branch learns that noise is no speech: half recorded, half made
(asr/training/sounds.py), as for the speech gate.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from asr.errors import AsrError, ConfigError
from asr.manifest import Utterance
from asr.nn.encoder import Chunking, StreamingEncoder
from asr.nn.speech_model import SpeechModel
from asr.nn.weights import save_weights
from asr.training.batching import draw_seed
from asr.training.config import TrainConfig
from asr.training.data import Batch
from asr.training.forward import BatchLoss, Forward
from asr.training.load_config import load_config
from asr.training.loop import Trainer
from asr.training.losses import ctc_sum
from asr.training.progress import finite
from asr.training.run import SpeechRun
from asr.training.run_folder import RunFolder
from asr.training.sounds import RATE, load_sounds, split_noises, synthetic_noise

BATCHES, NOISE_BATCHES = "[0-9]*.safetensors", "noise-*.safetensors"
SHOWN_EVERY = 100  # batches that are kept
NOISES, NOISE_SECONDS = 7, 5  # in a batch without words
NOISE_SHARE = 0.16  # of the batches of a pass
STRETCHES, HIDDEN_SHARE = 3, 0.06  # hidden in an utterance, and the most of it that each is
POSITIONS_A_PIECE = 4  # by which the loss of a batch without words is divided, as if it had some


def trunk(encoder: StreamingEncoder, frames: Tensor, lengths: Tensor, chunking: Chunking) -> tuple[Tensor, Tensor]:
    """The residual stream where the CTC branch leaves the memory's blocks, and the lengths `(batch,)` in positions.

    Arguments as in `StreamingEncoder.encode`. The stream is `(batch, positions, d_model)`, or each chunk with its
    look-ahead as a row, `(batch * chunks, chunk + look_ahead, d_model)`.
    """
    x, lengths = encoder.subsample(frames, lengths)
    layout = encoder.layout(lengths, x.shape[1], chunking)
    return encoder.run_blocks(layout.split(x), layout, range(encoder.config.fork)), lengths


def branch(encoder: StreamingEncoder, stream: Tensor, lengths: Tensor, size: int, chunking: Chunking) -> Tensor:
    """CTC log-probabilities `(batch, size, vocabulary)` of a stream from `trunk`, with the same chunks as there.

    `lengths` and `size` are in positions, `size` is that of the longest row with its padding.
    """
    layout = encoder.layout(lengths, size, chunking)
    x = encoder.run_blocks(stream, layout, range(encoder.config.layers, len(encoder.blocks)), last=True)
    return layout.join(encoder.posteriors(x[:, : layout.own]))


@dataclass(frozen=True)
class Kept:
    """A batch as the CTC branch reads it.

    Attributes:
        stream: `(rows, time, d_model)` of `trunk`, in half precision.
        lengths: `(batch,)` positions of each utterance.
        targets: `(batch, pieces)`, 0 after the end of each row.
        target_lengths: `(batch,)`.
        masked: positions in all, chunk, look-ahead and left context, with which the stream was made.
        name: of its file.
        seed: of what is drawn when it is trained on.
    """

    stream: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    masked: Tensor
    name: str = ""
    seed: int = 0

    @classmethod
    @torch.no_grad()
    def make(cls, batch: Batch, forward: Forward) -> Kept:
        """Augments a batch and sends it through the frozen blocks, in chunks drawn for it."""
        encoder, chunking = forward.model.encoder, forward.draw(batch)
        frames, lengths = forward.frames(batch, augment=True)
        stream, lengths = trunk(encoder, frames, lengths, chunking)
        left_context = encoder.config.left_context if chunking.left_context is None else chunking.left_context
        masked = torch.tensor([int(lengths.max()), chunking.chunk, chunking.look_ahead, left_context])
        return cls(stream.half().contiguous(), lengths, batch.targets, batch.target_lengths, masked)

    @classmethod
    def load(cls, path: Path) -> Kept:
        return cls(**load_file(path), name=f"{path.parent.parent.name}/{path.name}")

    def save(self, path: Path) -> None:
        save_weights({name: value for name, value in vars(self).items() if isinstance(value, Tensor)}, path)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def chunking(self) -> Chunking:
        return Chunking(*self.masked[1:].tolist())

    def loss(self, model: SpeechModel, hide: int) -> Tensor:
        """CTC of the batch over pieces, as in `asr.training.losses`; stretches of up to `hide` positions are hidden."""
        stream = self.stream.float()
        if hide:
            stream = stream.masked_fill(self.hidden(hide)[..., None], 0)
        log_probs = branch(model.encoder, stream, self.lengths, int(self.masked[0]), self.chunking)
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


def noise_batches(manifest: Path, seed: int, first: int) -> Iterator[Batch]:
    """Batches without words; of the recordings those that scripts/recipes/train_gate.py does not hold out."""
    recorded, _ = split_noises(load_sounds(manifest))
    size, lengths = NOISE_SECONDS * RATE, torch.full((NOISES,), NOISE_SECONDS * RATE)
    nothing, none = torch.zeros(NOISES, 1, dtype=torch.int64), torch.zeros(NOISES, dtype=torch.int64)
    utterances = (Utterance("noise", NOISE_SECONDS, ""),) * NOISES
    for number in itertools.count(first):
        draw = random.Random(draw_seed(seed, number))
        torch.manual_seed(draw_seed(seed, number))
        rows = [
            draw.choice(recorded).wave() if draw.random() < 0.5 else synthetic_noise(size, draw) for _ in range(NOISES)
        ]
        samples = torch.stack([torch.nn.functional.pad(row[:size], (0, max(0, size - len(row)))) for row in rows])
        samples = samples / samples.square().mean(1, keepdim=True).sqrt().clamp(min=1e-4) * 0.05
        yield Batch(samples, lengths, lengths, nothing, none, utterances, (), 1, number)


def keep(run: SpeechRun, names: Sequence[Path], read: Callable[[int], Iterator[Batch]]) -> list[Path]:
    """The files of batches, made in order where they are not there yet; `read` gives the batches from a number on."""
    first, begun, seconds = sum(1 for name in names if name.exists()), time.monotonic(), 0.0
    for batch in read(first) if first < len(names) else ():
        if len(batch):
            Kept.make(batch, run.forward).save(names[batch.number])
            seconds += batch.seconds(run.model.config.features.sample_rate)
        if (batch.number + 1) % SHOWN_EVERY == 0:
            rate = seconds / (time.monotonic() - begun)
            run.display.line(f"kept {batch.number + 1} of {len(names)} batches, {rate:.0f} s of audio a second")
        if batch.number + 1 == len(names):
            break
    return [name for name in names if name.exists()]


class KeptBatches:
    """Kept batches in passes, each in another order, with batches without words among them.

    Raises:
        ConfigError: there are none.
    """

    def __init__(self, speech: Sequence[Path], noises: Sequence[Path], seed: int) -> None:
        if not speech:
            raise ConfigError("--batches: nothing is kept to train on")
        self.speech, self.noises = ([Kept.load(path) for path in group] for group in (speech, noises))
        self.seed = seed

    def __str__(self) -> str:
        return f"{len(self.speech)} batches of speech, {len(self.noises)} of noise"

    def fingerprint(self) -> str:
        names = [kept.name for kept in (*self.speech, *self.noises)]
        return hashlib.blake2b(repr((names, self.seed)).encode(), digest_size=8).hexdigest()

    def count(self, epoch: int) -> int:
        return len(self.speech) + self._noisy

    @property
    def _noisy(self) -> int:
        """Batches without words in a pass."""
        return max(1, round(NOISE_SHARE / (1 - NOISE_SHARE) * len(self.speech))) if self.noises else 0

    def read(self, epoch: int, first: int = 0) -> Iterator[Kept]:
        draw = random.Random(draw_seed(self.seed, epoch))
        order = [*self.speech, *draw.choices(self.noises or self.speech, k=self._noisy)]
        draw.shuffle(order)
        for number, kept in list(enumerate(order))[first:]:
            yield replace(kept, seed=draw_seed(self.seed, epoch, number))


class BranchPass:
    """The CTC branch's way through a kept batch.

    Args:
        model: whose branch learns.
        dropout: in the branch's blocks.
        hide: positions of the longest stretch that is hidden.
    """

    losses = ("ctc",)

    def __init__(self, model: SpeechModel, dropout: float, hide: int) -> None:
        self.model, self.hide = model, hide
        for block in model.encoder.blocks[model.config.encoder.layers :]:
            block.dropout.p = dropout

    def backward(self, kept: Kept) -> BatchLoss:
        """Adds the gradient of a batch's loss to the parameters, unless the loss is not finite."""
        torch.manual_seed(kept.seed)
        loss = kept.loss(self.model, self.hide)
        if finite(loss.item()) is not None:
            loss.backward()
        seconds = float(kept.lengths.sum()) * self.model.position_seconds
        return BatchLoss(loss.item(), {"ctc": loss.item()}, kept.chunking, seconds, (kept.name,))


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
    folder = RunFolder(args.run)
    going_on = args.resume or args.keep_only
    folder.open(resume=going_on, restart=not going_on)
    run = SpeechRun(config, folder, torch.device("cpu"))
    run.model.eval()
    place, count = folder.path / "kept", run.batches.count(0)
    names = [place / f"{number:06d}.safetensors" for number in range(count)][: args.batches]
    files = keep(run, names, partial(run.batches.read, 0))
    names = [place / f"noise-{number:06d}.safetensors" for number in range(-(-len(files) // 10) if args.noise else 0)]
    noises = keep(run, names, partial(noise_batches, args.noise, config.seed))
    if args.keep_only:
        return
    batches = KeptBatches(files + also, noises + also_noise, config.seed)
    forward = BranchPass(run.model, args.dropout, args.hide)
    more = {"dev_set": run.dev_set, "display": run.display, "notes": run.notes}
    Trainer(config, folder, run.model, batches, forward, **more).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in asr train")
    parser.add_argument("--batches", type=int, help="how many are kept; default: the whole epoch")
    parser.add_argument("--noise", type=Path, metavar="MANIFEST", help="recordings of noise, to be silent about")
    parser.add_argument("--dropout", type=float, default=0.1, help="in the branch's block")
    parser.add_argument("--hide", type=int, default=10, metavar="POSITIONS", help="longest stretch that is hidden")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
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

"""Decoded batches: audio read by workers ahead of training, in an order that can be taken up in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asr.errors import AsrError
from asr.manifest import Utterance
from asr.nn.encoder import SUBSAMPLING
from asr.training.batching import BucketedBatches
from asr.training.selection import Selection, positions_needed

CACHED = 600.0  # seconds of audio (38 MB) up to which a reader keeps what it has decoded


@dataclass(frozen=True)
class Batch:
    """Utterances that are trained on together.

    Attributes:
        samples: `(batch, time)` in [-1, 1], zeros after the end of each row.
        sample_lengths: `(batch,)` samples of each row, with the tail of zeros.
        sounding: `(batch,)` samples of each row without the tail.
        targets: `(batch, pieces)` CTC outputs, 0 after the end of each row.
        target_lengths: `(batch,)`.
        utterances: what the manifests say of each.
        skipped: one line for each utterance that should have been here and could not be read.
        epoch: counted from 0.
        number: of the batch in its epoch, counted from 0.
    """

    samples: Tensor
    sample_lengths: Tensor
    sounding: Tensor
    targets: Tensor
    target_lengths: Tensor
    utterances: tuple[Utterance, ...]
    skipped: tuple[str, ...]
    epoch: int
    number: int

    def __len__(self) -> int:
        return len(self.utterances)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(utterance.audio for utterance in self.utterances)

    def seconds(self, sample_rate: int) -> float:
        """Audio in it, without padding."""
        return float(self.sounding.sum()) / sample_rate

    def to(self, device: torch.device) -> Batch:
        """Its tensors on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """For the loader: tensors in memory from which a GPU copies by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Any) -> Batch:
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.type == "Tensor"}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items()})


class BatchReader(Dataset):
    """`reader[(epoch, number, indices)]` decodes one batch; runs in the workers."""

    def __init__(self, selection: Selection, sample_rate: int, hop: int, tail_seconds: float, strict: bool) -> None:
        self.selection, self.sample_rate, self.hop = selection, sample_rate, hop
        self.tail, self.strict = round(tail_seconds * sample_rate), strict
        self._cache: dict[int, np.ndarray] | None = {} if selection.durations.sum() <= CACHED else None

    def __getitem__(self, key: tuple[int, int, list[int]]) -> Batch:
        epoch, number, indices = key
        audio: list[np.ndarray] = []
        kept: list[int] = []
        skipped: list[str] = []
        for i in indices:
            try:
                audio.append(self._read(i))
                kept.append(i)
            except AsrError as error:
                skipped.append(str(error))
        return self._collate(audio, kept, tuple(skipped), epoch, number)

    def _read(self, i: int) -> np.ndarray:
        """Samples of utterance i; AsrError when it cannot be read, is damaged or is not what its manifest says."""
        if self._cache is not None and i in self._cache:
            return self._cache[i]
        s = self.selection
        manifest = s.manifests[s.manifest[i]]
        utterance = manifest[int(s.index[i])]
        samples = manifest.read_audio(utterance, self.sample_rate, _refuse)
        seconds = len(samples) / self.sample_rate
        room = (len(samples) + self.tail) // self.hop // SUBSAMPLING
        if not len(samples) or (self.strict and positions_needed(s.targets(i)) > room):
            raise AsrError(f"{manifest.path}: {utterance.audio!r}: {seconds:.1f} s of sound are too short for its text")
        if self._cache is not None:
            self._cache[i] = samples
        return samples

    def _collate(self, audio: list, kept: list[int], skipped: tuple, epoch: int, number: int) -> Batch:
        sounding = torch.tensor([len(samples) for samples in audio], dtype=torch.int64)
        lengths = sounding + self.tail
        samples = torch.zeros(len(audio), int(lengths.max()) if audio else 0)
        targets = [self.selection.targets(i) for i in kept]
        padded = torch.zeros(len(audio), max((len(t) for t in targets), default=0), dtype=torch.int64)
        for row, (sound, target) in enumerate(zip(audio, targets, strict=True)):
            samples[row, : len(sound)] = torch.from_numpy(np.ascontiguousarray(sound, np.float32))
            padded[row, : len(target)] = torch.from_numpy(target)
        return Batch(
            samples,
            lengths,
            sounding,
            padded,
            torch.tensor([len(t) for t in targets], dtype=torch.int64),
            tuple(self.selection.utterances(kept)),
            skipped,
            epoch,
            number,
        )


def _refuse(line: str) -> None:
    raise AsrError(line)


def _quiet_worker(_: int) -> None:
    """Ctrl-C, and SIGTERM from a scheduler, reach the whole process group; the training process decides what they mean.

    A second SIGTERM is its own: it ends workers that hang.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL))
    torch.set_num_threads(1)


@dataclass(frozen=True)
class Recordings:
    """The batches of a plan, epoch after epoch.

    Attributes:
        reader: decodes them.
        plan: which utterances go together.
        workers: processes that decode; 0 = this one does.
        pin: tensors lie in memory from which a GPU copies by itself.
        share: rank and processes: every so manieth batch, as many for each process; an epoch's rest is dropped.
        say: shows a line for each utterance that cannot be read.
    """

    reader: BatchReader
    plan: BucketedBatches
    workers: int = 0
    pin: bool = False
    share: tuple[int, int] = (0, 1)
    say: Callable[[str], object] = print

    def __str__(self) -> str:
        durations = self.reader.selection.durations
        hours = float(durations.sum()) / 3600
        amount = f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"
        return f"{len(durations)} utterances ({amount}) in {self.count(0)} batches an epoch"

    def fingerprint(self) -> str:
        """Equal for batches that are equal in every epoch."""
        return self.plan.fingerprint()

    def count(self, epoch: int) -> int:
        """Batches of all processes."""
        return len(self.plan.epoch(epoch))

    def read(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `first` on; those before it are not decoded."""
        keys = [(epoch, number, indices) for number, indices in enumerate(self.plan.epoch(epoch))][first:]
        rank, processes = self.share
        keys = keys[: len(keys) // processes * processes][rank::processes]
        if not keys:
            return
        workers = min(self.workers, len(keys), os.cpu_count() or 1)
        loader = DataLoader(
            self.reader,
            batch_size=None,
            sampler=keys,
            num_workers=workers,
            collate_fn=_as_it_is,
            worker_init_fn=_quiet_worker,
            pin_memory=self.pin,
            prefetch_factor=2 if workers else None,
        )
        for batch in loader:
            for reason in batch.skipped:
                self.say(f"skipped: {reason}")
            yield batch


def _as_it_is(batch: Batch) -> Batch:
    return batch

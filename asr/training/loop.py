"""The training loop: batches to updates, with dev error rates, checkpoints and an end that can be taken up again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from asr.encoder import EncoderOutput
from asr.errors import AsrError, ManifestError
from asr.features import level_gain, scale_frames
from asr.manifest import Utterance
from asr.masks import FULL_CONTEXT, padding_mask
from asr.model import DECODER, model_folder
from asr.training.augment import augment_samples, perturb_speed, random_gain, spec_augment
from asr.training.batching import BucketedBatches, draw_seed
from asr.training.checkpoint import Checkpoints, Progress
from asr.training.chunks import draw_chunk, draw_left_context
from asr.training.config import TrainConfig
from asr.training.data import Batch, BatchReader, read_batches
from asr.training.dev import DevResult, dev_error_rate
from asr.training.losses import weighted_losses
from asr.training.noise import NoiseBank
from asr.training.optimiser import build_optimiser, learning_rate
from asr.training.progress import Display, StepReport, finite
from asr.training.run_folder import RunFolder
from asr.training.selection import Selection, select, target_text
from asr.training.setup import build_model, open_manifests, prepare_tokenizer, start_model
from asr.training.stopping import Stop
from asr.training.teaching import Teaching

BROKEN_STEPS = 20  # steps in a row without a finite loss or gradient after which training ends


class Trainer:
    """One run of `asr train`: everything that it needs, and the loop.

    All randomness of a batch is seeded by (seed, epoch, number of the batch), so a run that was interrupted goes on
    with the same batches, masks and chunks, and on the same CPU with the same losses to the last bit.

    Args:
        config: the configuration.
        run: the run's folder, opened.
        device: where to train.

    Raises:
        AsrError: data, tokenizer or checkpoint cannot be used.
    """

    def __init__(self, config: TrainConfig, run: RunFolder, device: torch.device) -> None:
        self.config, self.run_folder, self.device = config, run, device
        self.notes = run.settle_config(config)  # lines to show before training
        manifests = open_manifests(config.data.train)
        if not manifests:
            raise ManifestError("data.train: names no manifest: give one with --set data.train=[my.jsonl]")
        started = start_model(config)
        self.tokenizer = prepare_tokenizer(config.tokenizer, manifests, config.data, run.pieces, started)
        self.model = (started or build_model(config, self.tokenizer)).to(device)
        a = config.augment
        self.noise = NoiseBank.load(a.noise, self.model.config.features.sample_rate, a.noise_seconds).to(device)
        self.teaching = Teaching(config.teacher, config.losses, self.model, device)
        self.optimiser = build_optimiser(self.model, config.optimiser, self.model.config.encoder.layers)
        self.checkpoints = Checkpoints(run.checkpoints, config.schedule.keep)
        features = self.model.config.features
        self.train_set = select(manifests, self.tokenizer, config.data, features)
        self.notes += [f"left out: {count} {reason}" for reason, count in self.train_set.left_out.items()]
        tail = config.data.tail_seconds
        weights = np.asarray(config.data.weights)[self.train_set.manifest] if config.data.weights else None
        self.plan = BucketedBatches(
            self.train_set.durations + tail, config.data.batch_seconds, config.data.buckets, config.seed, weights
        )
        self.reader = BatchReader(self.train_set, features.sample_rate, features.hop, tail, strict=True)
        self.dev_set = None
        if config.data.dev:
            dev = open_manifests(config.data.dev)
            self.dev_set = select(dev, self.tokenizer, config.data, features, everything=True)
            self.dev_reader = BatchReader(self.dev_set, features.sample_rate, features.hop, tail, strict=False)
            self.dev_plan = BucketedBatches(self.dev_set.durations + tail, config.data.batch_seconds, 1, None)
        self.progress = self._resume()

    def _resume(self) -> Progress:
        fingerprint = self.plan.fingerprint()
        progress = self.checkpoints.load_newest(self.model, self.optimiser) or Progress(batches=fingerprint)
        if progress.batches != fingerprint:
            self.notes.append(f"the training data has changed: epoch {progress.epoch} begins anew")
            progress.batch, progress.batches = 0, fingerprint
        self.run_folder.cut_log(progress.step)
        return progress

    # ---- the loop ----

    def run(self) -> None:
        """Trains to the last step, the time limit, or the first SIGINT or SIGTERM; saves in each case.

        Raises:
            AsrError: no audio can be read, a checkpoint cannot be written, or the loss stays without a finite value.
        """
        schedule, progress = self.config.schedule, self.progress
        total = schedule.steps
        with Stop(schedule.time_limit) as stop, Display(progress.step, total) as self.display:
            for note in self._introduction():
                self.display.line(note)
            batches, broken, saved_at = self._endless(), 0, time.monotonic()
            while progress.step < total:
                report = self._step(batches)
                self._log(asdict(report))
                self.display.step(report)
                broken = broken + 1 if report.skipped else 0
                if broken == BROKEN_STEPS:
                    raise AsrError(
                        f"{report.skipped} for {broken} steps in a row: lower optimiser.learning_rate and go on from "
                        f"the last checkpoint with --resume"
                    )
                last = progress.step == total
                is_best = (last or progress.step % schedule.dev_every == 0) and self._dev()
                due = time.monotonic() - saved_at > 60 * schedule.checkpoint_minutes
                if last or is_best or due or stop.reason or progress.step % schedule.checkpoint_every == 0:
                    self._save(is_best or self.dev_set is None)
                    saved_at = time.monotonic()
                if stop.reason and not last:
                    self.display.line(f"stopped at step {progress.step} by {stop.reason}: --resume goes on from there")
                    return
            self.display.line(self._conclusion())

    def _endless(self) -> Iterator[Batch]:
        """Batches from where the run stands, epoch after epoch; `progress` names the batch after the last one."""
        progress, d = self.progress, self.config.data
        pin = self.device.type == "cuda"
        usable = True
        while usable:
            usable = progress.batch > 0
            for batch in read_batches(
                self.reader, self.plan, progress.epoch, progress.batch, workers=d.workers, pin=pin
            ):
                for reason in batch.skipped:
                    self.display.line(f"skipped: {reason}")
                progress.batch = batch.number + 1
                if len(batch):
                    usable = True
                    yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0
        raise ManifestError("data.train: none of the audio can be read")

    def _step(self, batches: Iterator[Batch]) -> StepReport:
        """One update from `accumulate` batches; without a finite loss and gradient the weights stay as they are."""
        o, begin = self.config.optimiser, time.monotonic()
        step = self.progress.step + 1
        rate = learning_rate(step, o.learning_rate, self.config.schedule)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        self.model.train()
        loss, seconds, skipped, norm = 0.0, 0.0, None, float("nan")
        parts: dict[str, float] = {}
        for _ in range(o.accumulate):
            batch = next(batches)
            value, each, chunk, look_ahead = self._loss(batch)
            (value / o.accumulate).backward()
            loss += value.item() / o.accumulate
            parts = {name: parts.get(name, 0.0) + float(part) / o.accumulate for name, part in each.items()}
            seconds += batch.seconds(self.model.config.features.sample_rate)
            if finite(loss) is None:
                skipped = f"the loss is not finite ({', '.join(batch.names[:3])}{', ...' if len(batch) > 3 else ''})"
                break
        if skipped is None:
            norm = float(clip_grad_norm_(self.model.parameters(), o.clip))
            if finite(norm) is None:
                skipped = (
                    f"the gradient is not finite ({', '.join(batch.names[:3])}{', ...' if len(batch) > 3 else ''})"
                )
            else:
                self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.progress.step = step
        self.progress.audio_seconds += seconds
        if skipped:
            self.display.line(f"step {step} skipped: {skipped}")
        return StepReport(
            step,
            batch.epoch,
            finite(loss),
            finite(norm),
            rate,
            round(seconds / (time.monotonic() - begin), 1),
            0 if chunk == FULL_CONTEXT else chunk,
            look_ahead,
            {name: value for name, value in parts.items() if finite(value) is not None},
            skipped,
        )

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], int, int]:
        """The loss of a batch, its parts, and the chunk and look-ahead that were drawn for it."""
        seed = draw_seed(self.config.seed, batch.epoch, batch.number)
        torch.manual_seed(seed)
        draw = random.Random(seed)
        chunk, look_ahead = draw_chunk(self.config.chunks, draw)
        left_context = draw_left_context(self.config.chunks, draw)
        features = self.model.config.features
        batch = perturb_speed(batch.to(self.device), self.config.augment, features.hop)
        frames, lengths = self._frames(batch, augment=True)
        output = self._encode(frames, lengths, chunk, look_ahead, left_context)
        lesson = self.teaching.lesson(batch, self._utterances(self.train_set, batch), output, chunk, look_ahead)
        value, parts = weighted_losses(lesson)
        return value, parts, chunk, look_ahead

    @staticmethod
    def _utterances(selection: Selection, batch: Batch) -> list[Utterance]:
        return [selection.manifests[selection.manifest[i]][int(selection.index[i])] for i in batch.indices.tolist()]

    @torch.no_grad()
    def _frames(self, batch: Batch, *, augment: bool) -> tuple[Tensor, Tensor]:
        """Scaled frames `(batch, time, mels)` at the level of speech, and the lengths of the rows in frames."""
        samples, a = batch.samples, self.config.augment
        if augment:
            samples = augment_samples(samples, batch.sounding, a, self.noise)
        log_power, _ = self.model.features(samples)
        hop = self.model.config.features.hop
        sounding = padding_mask((batch.sounding // hop).clamp(min=1), log_power.shape[1])
        power = (self.model.features.mean_square(log_power) * sounding).sum(1) / sounding.sum(1)
        gain, lengths = level_gain(power), batch.sample_lengths // hop
        if not augment:
            return scale_frames(log_power, gain), lengths
        gain = gain * random_gain(len(batch), a.gain_db, self.device)
        return spec_augment(scale_frames(log_power, gain), lengths, a), lengths

    def _encode(
        self, frames: Tensor, lengths: Tensor, chunk: int, look_ahead: int, left_context: int | None = None
    ) -> EncoderOutput:
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
            return self.model.encoder.encode(
                frames,
                lengths,
                chunk=chunk,
                look_ahead=look_ahead,
                left_context=left_context,
                taps=self.teaching.taps,
                ctc_gradient=self.config.losses.ctc_gradient,
            )

    # ---- dev, saving, reporting ----

    def dev_result(self) -> DevResult:
        """Word error rates on the dev set as the model stands."""
        self.model.eval()

        def batches() -> Iterator[tuple[Batch, Tensor, Tensor]]:
            for batch in read_batches(self.dev_reader, self.dev_plan, 0, workers=self.config.data.workers):
                for reason in batch.skipped:
                    self.display.line(f"dev, skipped: {reason}")
                if len(batch):
                    batch = batch.to(self.device)
                    yield (batch, *self._frames(batch, augment=False))

        def references(batch: Batch) -> list[str]:
            return [target_text(u.text, self.config.data) for u in self._utterances(self.dev_set, batch)]

        return dev_error_rate(batches(), references, self._encode, self.model, self.config.chunks)

    def _dev(self) -> bool:
        """Measures, logs and shows dev word error rates; whether they are the best so far."""
        if self.dev_set is None:
            return False
        result, progress = self.dev_result(), self.progress
        is_best = progress.best_wer is None or result.score <= progress.best_wer
        if is_best:
            progress.best_wer, progress.best_step = result.score, progress.step
        self._log({"step": progress.step} | result.as_log())
        self.display.line(f"step {progress.step}: dev WER {result}" + (", the best so far" if is_best else ""))
        return is_best

    def _save(self, export: bool) -> None:
        self.checkpoints.save(self.model, self.optimiser, self.progress)
        if export:
            decoder = None if self.model.decoder is None else model_folder(self.config.start) / DECODER
            self.model.config = replace(self.model.config, about=f"asr train, step {self.progress.step}")
            self.model.save(self.run_folder.model, half=self.model.decoder is not None, decoder=decoder)

    def _log(self, values: dict) -> None:
        with open(self.run_folder.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(values) + "\n")

    def _introduction(self) -> list[str]:
        hours = float(self.train_set.durations.sum()) / 3600
        amount = f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"
        weights = sum(p.numel() for p in self.model.parameters()) / 1e6
        about = (
            f"{len(self.train_set)} utterances ({amount}) in {len(self.plan.epoch(0))} batches an epoch, "
            f"{len(self.tokenizer) - 1} pieces, {weights:.2f} M weights, on {self.device}"
        )
        begin = [f"going on after step {self.progress.step}"] if self.progress.step else []
        return [about, *self.notes, *begin]

    def _conclusion(self) -> str:
        p, model = self.progress, self.run_folder.model
        best = "" if p.best_step is None else f" of step {p.best_step}, the best,"
        return f"done after step {p.step}; the model{best} is ready: asr transcribe --model {model} FILE"


def train(
    config: TrainConfig, folder: Path, device: torch.device, *, resume: bool = False, restart: bool = False
) -> None:
    """Runs the whole of `asr train`; AsrError for whatever the user can mend."""
    from safetensors import SafetensorError

    run = RunFolder(folder)
    run.open(resume=resume, restart=restart)
    try:
        Trainer(config, run, device).run()
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise AsrError(
            f"{folder}: the run has ended: {reason}; go on from its last checkpoint with --resume when that is mended"
        ) from error

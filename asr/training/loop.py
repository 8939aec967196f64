"""The training loop: batches to updates, with dev error rates, checkpoints and an end that can be taken up again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from asr.errors import AsrError, ConfigError, ManifestError
from asr.nn.masks import FULL_CONTEXT
from asr.nn.speech_model import DECODER, model_folder
from asr.training.average import WeightAverage
from asr.training.batching import BucketedBatches
from asr.training.board import Board
from asr.training.checkpoint import Checkpoints, Progress
from asr.training.config import TrainConfig
from asr.training.data import Batch, BatchReader, read_batches
from asr.training.dev import DevSet
from asr.training.forward import Forward, Setting
from asr.training.losses import active_losses
from asr.training.memory import MemoryLimit
from asr.training.noise import NoiseBank
from asr.training.optimiser import build_optimiser, learning_rate
from asr.training.precision import use_bf16
from asr.training.progress import Display, StepReport, finite
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
from asr.training.stopping import Stop
from asr.training.tally import Tally
from asr.training.teaching import Teaching
from asr.training.team import Team

BROKEN_STEPS = 20  # steps in a row without a finite loss or gradient after which training ends


class Trainer:
    """One run of `asr train`: everything that it needs, and the loop.

    All randomness of a batch is seeded by (seed, epoch, number of the batch), so a run that was interrupted goes on
    with the same batches, masks and chunks, and on the same CPU with the same losses to the last bit. A team's
    processes take turns with the batches, and the step is the mean over all: W processes that accumulate A batches
    do what one does that accumulates A W.

    Args:
        config: the configuration.
        run: the run's folder, opened.
        device: where to train.
        team: the processes that train together; default: this one alone.
        board: whether there are curves and example transcripts for TensorBoard.

    Raises:
        AsrError: data, tokenizer or checkpoint cannot be used.
    """

    def __init__(
        self,
        config: TrainConfig,
        run: RunFolder,
        device: torch.device,
        team: Team | None = None,
        *,
        board: bool = False,
    ) -> None:
        self.config, self.run_folder, self.device = config, run, device
        self.team = team or Team(device=device)
        self.notes = run.settle_config(config) if self.team.leads else []  # lines to show before training
        manifests = open_manifests(config.data.train)
        if not manifests:
            raise ManifestError("data.train: names no manifest: give one with --set data.train=[my.jsonl]")
        started = start_model(config)
        with self.team.leader_first():
            self.tokenizer = prepare_tokenizer(config.tokenizer, manifests, config.data, run.pieces, started)
        model = started or build_model(config, self.tokenizer)
        reads = model.decoder is not None
        if config.decoder.layers:
            add_decoder(model, config)
        self.model = model.to(device)
        a = config.augment
        features = self.model.config.features
        noise = NoiseBank.load(a.noise, features.sample_rate, a.noise_seconds).to(device)
        torch.manual_seed(config.seed)
        teaching = Teaching(config.teacher, config.losses, self.model, device, reads=reads)
        self.average = WeightAverage(self.model, config.optimiser.ema) if config.optimiser.ema else None
        self.optimiser = build_optimiser(self.model, config.optimiser, self.model.config.encoder.layers)
        bf16, why = self.team.gather(use_bf16(config.precision, device))[0]
        self.notes.append(why)
        self.display = Display(0, config.schedule.steps, silent=not self.team.leads)
        memory = MemoryLimit(lambda line: self.display.line(line))
        self.forward = Forward(self.model, config, teaching, noise, memory, bf16)
        self.checkpoints = Checkpoints(run.checkpoints, config.schedule.keep)
        self.notes += tokenizer_notes(config, self.tokenizer)
        self.train_set = select(manifests, self.tokenizer, config.data, features)
        self.notes += [f"left out: {count} {reason}" for reason, count in self.train_set.left_out.items()]
        if config.decoder.layers:
            self.notes += decoder_notes(self.train_set, self.model.decoder_pieces)
        tail = config.data.tail_seconds
        weights = np.asarray(config.data.weights)[self.train_set.manifest] if config.data.weights else None
        self.plan = BucketedBatches(
            self.train_set.durations + tail, config.data.batch_seconds, config.data.buckets, config.seed, weights
        )
        if len(self.plan.epoch(0)) < self.team.size:
            raise ConfigError(
                f"data.batch_seconds: {self.team.size} processes need a batch each, and an epoch has only "
                f"{len(self.plan.epoch(0))}: lower it, or start fewer processes"
            )
        self.reader = BatchReader(self.train_set, features.sample_rate, features.hop, tail, strict=True)
        self.dev_set = DevSet(config, self.tokenizer, features) if config.data.dev else None
        self.progress = self._resume()
        self.stop: Stop | None = None
        self.board = Board(run.board, self.progress.step) if board and self.team.leads else None

    def _resume(self) -> Progress:
        fingerprint = self.plan.fingerprint()
        found = self.checkpoints.load_newest(self.model, self.optimiser, self.average)
        progress = found or Progress(batches=fingerprint)
        if progress.batches != fingerprint:
            self.notes.append(f"the training data has changed: epoch {progress.epoch} begins anew")
            progress.batch, progress.batches = 0, fingerprint
        self.team.agree((progress.step, progress.epoch, progress.batch, fingerprint), "checkpoints or data")
        self.team.share_weights(self.model)
        if self.average and found is None:
            self.average.begin()
        if self.team.leads:
            self.run_folder.cut_log(progress.step)
        return progress

    # ---- the loop ----

    def run(self) -> None:
        """Trains to the last step, the time limit, or the first SIGINT or SIGTERM; saves in each case.

        Raises:
            AsrError: no audio can be read, a checkpoint cannot be written, or the loss stays without a finite value.
        """
        schedule, progress, team, total = self.config.schedule, self.progress, self.team, self.config.schedule.steps
        self.display = Display(progress.step, total, silent=not team.leads)
        with Stop(schedule.time_limit, patient=team.size > 1) as self.stop, self.display:
            for note in self._introduction():
                self.display.line(note)
            batches, broken, saved_at = self._endless(), 0, time.monotonic()
            while progress.step < total:
                report, stops = self._step(batches)
                self._report(report)
                broken = broken + 1 if report.skipped else 0
                if broken == BROKEN_STEPS:
                    raise AsrError(
                        f"{report.skipped} for {broken} steps in a row: lower optimiser.learning_rate and go on from "
                        f"the last checkpoint with --resume"
                    )
                stop = (stops and (self.stop.reason or "another process")) if team.size > 1 else self.stop.reason
                last = progress.step == total
                is_best = (last or progress.step % schedule.dev_every == 0) and self._dev()
                due = time.monotonic() - saved_at > 60 * schedule.checkpoint_minutes
                if last or is_best or due or stop or progress.step % schedule.checkpoint_every == 0:
                    self._save(is_best or self.dev_set is None)
                    saved_at = time.monotonic()
                if stop and not last:
                    self.display.line(f"stopped at step {progress.step} by {stop}: --resume goes on from there")
                    return
            self.display.line(self._conclusion())

    def _endless(self) -> Iterator[Batch]:
        """This process's batches from where the run stands, epoch after epoch.

        `progress` names the batch after those that all processes have taken when they have taken one each.
        """
        progress, team = self.progress, self.team
        settings = {"workers": self.config.data.workers, "pin": self.device.type == "cuda"}
        while True:
            first, share = progress.batch, (team.rank, team.size)
            taken = read_batches(self.reader, self.plan, progress.epoch, first, share=share, **settings)
            for turn, batch in enumerate(taken, start=1):
                for reason in batch.skipped:
                    self.display.line(f"skipped: {reason}")
                progress.batch = first + turn * team.size
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _gradient(self, batches: Iterator[Batch]) -> Tally:
        """Adds up the gradients of `accumulate` batches of each process, of more where none of them can be read."""
        empty, enough = 0, len(self.plan.epoch(self.progress.epoch)) + self.team.size
        while empty <= enough:
            tally = Tally(dict.fromkeys(active_losses(self.config.losses), 0.0))
            for _ in range(self.config.optimiser.accumulate):
                batch = next(batches)
                if len(batch):
                    result = self.forward.backward(batch, self.train_set.utterances(batch.indices.tolist()))
                    tally.add(batch, result, self.model.config.features.sample_rate)
            tally.stops = float(self.stop is not None and self.stop.reason is not None)
            tally = tally.together(self.team)
            if tally.batches:
                return tally
            empty += self.team.size * self.config.optimiser.accumulate
        raise ManifestError("data.train: none of the audio can be read")

    def _step(self, batches: Iterator[Batch]) -> tuple[StepReport, bool]:
        """One update, and whether a process wants to stop after it.

        Without a finite loss and gradient the weights stay as they are.
        """
        o, begin = self.config.optimiser, time.monotonic()
        step = self.progress.step + 1
        rate = learning_rate(step, o.learning_rate, self.config.schedule)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        self.model.train()
        tally = self._gradient(batches)
        skipped, norm = None, float("nan")
        if finite(tally.loss) is None:
            skipped = f"the loss is not finite ({self._suspects(tally)})"
        else:
            self.team.average_gradients(self.model.parameters(), tally.batches)
            norm = float(clip_grad_norm_(self.model.parameters(), o.clip))
            if finite(norm) is None:
                skipped = f"the gradient is not finite ({self._suspects(tally)})"
            else:
                self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average and not skipped:
            self.average.update(step)
        self.progress.step = step
        self.progress.audio_seconds += tally.seconds
        if skipped:
            self.display.line(f"step {step} skipped: {skipped}")
        setting = tally.last.setting if tally.last else Setting(FULL_CONTEXT, 0, None)
        parts = {name: value / tally.batches for name, value in tally.parts.items()}
        report = StepReport(
            step,
            self.progress.epoch,
            finite(tally.loss / tally.batches),
            finite(norm),
            rate,
            round(tally.seconds / (time.monotonic() - begin), 1),
            0 if setting.chunk == FULL_CONTEXT else setting.chunk,
            setting.look_ahead,
            {name: value for name, value in parts.items() if finite(value) is not None},
            skipped,
        )
        return report, tally.stops > 0

    def _suspects(self, tally: Tally) -> str:
        names = [name for names in self.team.gather(tally.names) for name in names]
        return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"

    # ---- dev, saving, reporting ----

    def _averaged(self) -> AbstractContextManager:
        """The model has the weights that are measured and exported."""
        return self.average.in_use() if self.average else nullcontext()

    def _dev(self) -> bool:
        """Measures, logs and shows dev word error rates; whether they are the best so far."""
        if self.dev_set is None or not self.team.leads:
            return False
        with self._averaged():
            result, progress = self.dev_set.measure(self.model, self.forward, self.display.line), self.progress
        is_best = progress.best_wer is None or result.score <= progress.best_wer
        if is_best:
            progress.best_wer, progress.best_step = result.score, progress.step
        self._log({"step": progress.step} | result.as_log())
        if self.board:
            self.board.dev(progress.step, result)
        self.display.line(f"step {progress.step}: dev WER {result}" + (", the best so far" if is_best else ""))
        return is_best

    def _save(self, export: bool) -> None:
        if not self.team.leads:
            return
        self.checkpoints.save(self.model, self.optimiser, self.progress, self.average)
        if not export:
            return
        decoder = self.model.decoder
        learnt = decoder is not None and decoder.embedding.weight.requires_grad
        kept = model_folder(self.config.start) / DECODER if decoder is not None and not learnt else None
        self.model.config = replace(self.model.config, about=f"asr train, step {self.progress.step}")
        with self._averaged():
            self.model.save(self.run_folder.model, half=decoder is not None, int8_decoder=learnt, decoder=kept)

    def _report(self, report: StepReport) -> None:
        if self.team.leads:
            self._log(asdict(report))
            self.display.step(report)
        if self.board:
            self.board.step(report)

    def _log(self, values: dict) -> None:
        with open(self.run_folder.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(values) + "\n")

    def _introduction(self) -> list[str]:
        hours = float(self.train_set.durations.sum()) / 3600
        amount = f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"
        weights = sum(p.numel() for p in self.model.parameters()) / 1e6
        processes = f", in {self.team.size} processes" if self.team.size > 1 else ""
        about = (
            f"{len(self.train_set)} utterances ({amount}) in {len(self.plan.epoch(0))} batches an epoch, "
            f"{len(self.tokenizer) - 1} pieces, {weights:.2f} M weights, on {self.device}{processes}"
        )
        begin = [f"going on after step {self.progress.step}"] if self.progress.step else []
        return [about, *self.notes, *begin]

    def _conclusion(self) -> str:
        p, model = self.progress, self.run_folder.model
        best = "" if p.best_step is None else f" of step {p.best_step}, the best,"
        return f"done after step {p.step}; the model{best} is ready: asr transcribe --model {model} FILE"


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
        Trainer(config, run, device, team, board=board).run()
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise AsrError(
            f"{folder}: the run has ended: {reason}; go on from its last checkpoint with --resume when that is mended"
        ) from error
    team.leave()

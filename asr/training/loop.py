"""The training loop: batches to updates, with dev error rates, checkpoints and an end that can be taken up again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence, Sized
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, replace
from typing import Protocol

from torch.nn.utils import clip_grad_norm_

from asr.errors import AsrError, ManifestError
from asr.nn.encoder import FULL_CONTEXT
from asr.nn.speech_model import DECODER, SpeechModel, model_folder
from asr.training.average import WeightAverage
from asr.training.board import Board
from asr.training.checkpoint import Checkpoints, Progress
from asr.training.config import TrainConfig
from asr.training.dev import DevSet
from asr.training.forward import BatchLoss
from asr.training.optimiser import build_optimiser, learning_rate
from asr.training.progress import Display, StepReport, finite
from asr.training.run_folder import RunFolder
from asr.training.stopping import Stop
from asr.training.tally import Tally
from asr.training.team import Team

BROKEN_STEPS = 20  # steps in a row without a finite loss or gradient after which training ends


class Batches(Protocol):
    """Where batches come from: the same for the same epoch and number, so that a run can be taken up in the middle.

    `str` says in a line what they are.
    """

    def fingerprint(self) -> str:
        """Equal for batches that are equal in every epoch."""

    def count(self, epoch: int) -> int:
        """How many an epoch has, those of the team's other processes included."""

    def read(self, epoch: int, first: int = 0) -> Iterator[Sized]:
        """This process's batches from number `first` on; one of which nothing can be read is empty."""


class ForwardPass(Protocol):
    """How a batch becomes a loss.

    Attributes:
        losses: names of the parts of each loss.
    """

    losses: Sequence[str]

    def backward(self, batch: Sized) -> BatchLoss:
        """Adds the gradient of a batch's loss to the parameters, unless the loss is not finite."""


class Trainer:
    """Trains a model: loop, optimiser, schedule, averaged weights, checkpoints, dev error rates, log and end.

    An interrupted run goes on with the same batches, and with the same losses to the last bit (on the same CPU) where
    all that is random about a batch is a function of its epoch and number. A team's processes take turns with the
    batches, and the step is the mean over all: W processes that accumulate A batches do what one does that accumulates
    A W.

    Args:
        config: optimiser and schedule; the rest is what batches and forward pass were made from.
        run: the run's folder, opened.
        model: what learns.
        batches: what it learns from.
        forward: how.
        dev_set: what it is measured on; none = the last model is the best.
        team: the processes that train together; default: this one alone.
        display: shows lines and steps.
        notes: lines to show before training.
        board: whether there are curves and example transcripts for TensorBoard.

    Raises:
        AsrError: the checkpoint cannot be used.
    """

    def __init__(
        self,
        config: TrainConfig,
        run: RunFolder,
        model: SpeechModel,
        batches: Batches,
        forward: ForwardPass,
        *,
        dev_set: DevSet | None = None,
        team: Team | None = None,
        display: Display | None = None,
        notes: Sequence[str] = (),
        board: bool = False,
    ) -> None:
        self.config, self.run_folder, self.model = config, run, model
        self.batches, self.forward, self.dev_set = batches, forward, dev_set
        self.device = model.device
        self.team = team or Team(device=self.device)
        self.display = display or Display(config.schedule.steps, silent=not self.team.leads)
        self.notes = list(notes)
        o = config.optimiser
        self.average = WeightAverage(model, o.ema, o.start_share) if o.ema or o.start_share else None
        self.optimiser = build_optimiser(model, config.optimiser, model.config.encoder.layers)
        self.checkpoints = Checkpoints(run.checkpoints, config.schedule.keep)
        self.progress = self._resume()
        self.stop: Stop | None = None
        self.board = Board(run.board, self.progress.step) if board and self.team.leads else None

    def _resume(self) -> Progress:
        fingerprint = self.batches.fingerprint()
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
        self.display.first = progress.step
        board = closing(self.board) if self.board else nullcontext()
        with Stop(schedule.time_limit, patient=team.size > 1) as self.stop, self.display, board:
            for note in self._introduction():
                self.display.line(note)
            if schedule.dev_first and not progress.step and self._dev():
                self._save(True)
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

    def _endless(self) -> Iterator[Sized]:
        """This process's batches from where the run stands, epoch after epoch.

        `progress` names the batch after those that all processes have taken when they have taken one each.
        """
        progress = self.progress
        while True:
            first = progress.batch
            for turn, batch in enumerate(self.batches.read(progress.epoch, first), start=1):
                progress.batch = first + turn * self.team.size
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _gradient(self, batches: Iterator[Sized]) -> Tally:
        """Adds up the gradients of `accumulate` batches of each process, of more where none of them can be read."""
        empty, enough = 0, self.batches.count(self.progress.epoch) + self.team.size
        while empty <= enough:
            tally = Tally(dict.fromkeys(self.forward.losses, 0.0))
            for _ in range(self.config.optimiser.accumulate):
                batch = next(batches)
                if len(batch):
                    tally.add(self.forward.backward(batch))
            tally.stops = float(self.stop is not None and self.stop.reason is not None)
            tally = tally.together(self.team)
            if tally.batches:
                return tally
            empty += self.team.size * self.config.optimiser.accumulate
        raise ManifestError("data.train: none of the audio can be read")

    def _step(self, batches: Iterator[Sized]) -> tuple[StepReport, bool]:
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
        chunking = tally.last.chunking if tally.last else FULL_CONTEXT
        parts = {name: value / tally.batches for name, value in tally.parts.items()}
        report = StepReport(
            step,
            self.progress.epoch,
            finite(tally.loss / tally.batches),
            finite(norm),
            rate,
            round(tally.seconds / (time.monotonic() - begin), 1),
            0 if chunking.chunk == FULL_CONTEXT.chunk else chunking.chunk,
            chunking.look_ahead,
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
            result, progress = self.dev_set.measure(), self.progress
        compared = progress.best_wer is not None
        is_best = not compared or result.score <= progress.best_wer
        if is_best:
            progress.best_wer, progress.best_step = result.score, progress.step
        self._log({"step": progress.step} | result.as_log())
        if self.board:
            self.board.dev(progress.step, result)
        self.display.line(
            f"step {progress.step}: dev WER {result}" + (", the best so far" if is_best and compared else "")
        )
        return is_best

    def _save(self, export: bool) -> None:
        if not self.team.leads:
            return
        self.checkpoints.save(self.model, self.optimiser, self.progress, self.average)
        if not export:
            return
        decoder = self.model.decoder
        learnt = decoder is not None and any(p.requires_grad for p in decoder.parameters())
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
        weights = sum(p.numel() for p in self.model.parameters()) / 1e6
        processes = f", in {self.team.size} processes" if self.team.size > 1 else ""
        about = (
            f"{self.batches}, {len(self.model.tokenizer) - 1} pieces, {weights:.2f} M weights, "
            f"on {self.device}{processes}"
        )
        begin = [f"going on after step {self.progress.step}"] if self.progress.step else []
        return [about, *self.notes, *begin]

    def _conclusion(self) -> str:
        p, model = self.progress, self.run_folder.model
        best = "" if p.best_step in (None, p.step) else f" of step {p.best_step}, the best on dev,"
        return f"done after step {p.step}; the model{best} is ready: asr transcribe --model {model} FILE"

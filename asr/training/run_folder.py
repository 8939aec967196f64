"""The folder of a run: what lies where, whether it may be used, and the log of steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from asr.errors import ConfigError
from asr.files import write_whole
from asr.training.config import TrainConfig, flatten, to_plain

_FIXED = ("model.", "tokenizer.", "decoder.")  # keys that cannot change while a run goes on

_PASSING = {"schedule.time_limit", "data.workers"}  # keys that say nothing about what is trained


class RunFolder:
    """`config.json`, `pieces.model`, `log.jsonl`, `checkpoints/`, `model/` and `tensorboard/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.pieces = path / "pieces.model"
        self.log = path / "log.jsonl"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.board = path / "tensorboard"

    def open(self, *, resume: bool, restart: bool) -> None:
        """Makes the folder ready; `restart` removes what an earlier run left in it.

        Raises:
            ConfigError: there is a run in it and neither `resume` nor `restart` is given, or it cannot be made.
        """
        if resume and restart:
            raise ConfigError("--resume goes on with a run, --restart begins again: give one of them")
        if not restart and not resume and (self.log.exists() or self.checkpoints.exists()):
            raise ConfigError(
                f"{self.path}: holds a run already: --resume goes on with it, --restart deletes it and begins again"
            )
        try:
            if restart or not any(self.checkpoints.glob("step-*")):
                self._clear()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be used: {error.strerror}; choose another --run") from error

    def _clear(self) -> None:
        """Removes what an earlier run left, or one that did not come as far as a checkpoint; nothing else."""
        for path in (self.checkpoints, self.model, self.board):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.log, self.pieces, self.config):
            path.unlink(missing_ok=True)

    def settle_config(self, config: TrainConfig) -> list[str]:
        """Writes the configuration; returns a line for each value that an earlier part of the run had otherwise.

        Raises:
            ConfigError: the model or the tokenizer would be another one.
        """
        now = json.loads(json.dumps(to_plain(config)))
        changes = []
        if self.config.exists():
            before = dict(_flat(json.loads(self.config.read_text("utf-8"))))
            for key, _ in flatten(config):
                old, new = before.get(key), dict(_flat(now))[key]
                if key not in before or old == new or key in _PASSING:
                    continue
                if key.startswith(_FIXED):
                    raise ConfigError(f"{key}: the run has {old!r}, not {new!r}: keep it, or use another --run")
                changes.append(f"{key}: {old!r} before, {new!r} from here on")
        write_whole(self.config, json.dumps(now, indent=1) + "\n")
        return changes

    def cut_log(self, step: int) -> None:
        """Takes back what was logged after a step: the run goes on from there."""
        if not self.log.exists():
            return
        kept = []
        for line in self.log.read_text("utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line)
            except ValueError:  # the line that a kill has cut off
                break
        write_whole(self.log, "".join(line + "\n" for line in kept))


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return pairs

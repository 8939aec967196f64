"""Curves and example transcripts for TensorBoard."""

from __future__ import annotations

from pathlib import Path

from asr.errors import AsrError
from asr.training.dev import DevResult
from asr.training.progress import StepReport


class Board:
    """Writes the scalars of steps, dev word error rates and example transcripts into a folder.

    Args:
        folder: where to.
        step: the last step whose curves stay; a run that was killed does the later ones again.

    Raises:
        AsrError: the package is not installed.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise AsrError("--tensorboard: the package is missing: pip install tensorboard") from error
        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def step(self, report: StepReport) -> None:
        """A step has been done."""
        values = {
            "train/loss": report.loss,
            "train/gradient_norm": report.gradient_norm,
            "train/learning_rate": report.learning_rate,
            "train/audio_per_second": report.audio_per_second,
            **{f"loss/{name}": value for name, value in report.losses.items()},
        }
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, report.step)

    def dev(self, step: int, result: DevResult) -> None:
        """The dev set has been measured."""
        for name, value in result.as_log().items():
            self._writer.add_scalar(f"dev/{name}", value, step)
        if result.examples:
            self._writer.add_text("dev/examples", _table(result.examples), step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _table(examples: tuple[dict[str, str], ...]) -> str:
    """Examples as a Markdown table."""
    heads = list(examples[0])
    rows = [heads, ["---"] * len(heads), *([example[head] for head in heads] for example in examples)]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)

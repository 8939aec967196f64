"""Where the text of each input goes, and what of it is done already."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from asr.errors import AsrError
from asr.jobs.inputs import STANDARD_INPUT, Input

LONGEST_NAME = 255  # bytes of a file's name, on all common file systems


@dataclass(frozen=True)
class Task:
    """An input and the files, by format, that shall be made of it; none: its events are handed back.

    `number` is its place in the order of the inputs.
    """

    number: int
    input: Input
    outputs: dict[str, str] = field(default_factory=dict)

    def done(self, since: float = 0.0) -> bool:
        """Whether all outputs are there, written after `since` (seconds of the epoch) and since the input has changed.

        An output is written under another name and renamed when it is complete: one that is there is whole. Of an
        input that dates from the future, as cameras with a wrong clock make them, the system's own date is taken.
        """
        if not self.outputs:
            return False
        try:
            oldest = min(os.stat(path).st_mtime for path in self.outputs.values())
            if self.input.path == STANDARD_INPUT:
                return oldest >= since
            status = os.stat(self.input.path)
            changed = status.st_mtime if status.st_mtime <= time.time() else status.st_ctime
            return oldest >= max(since, changed)
        except (OSError, ValueError):
            return False


def plan(inputs: Sequence[Input], formats: Sequence[str], folder: Path | None) -> list[Task]:
    """A task for each input, an input that is named twice once.

    Outputs lie beside the input (`talk.mp3` -> `talk.srt`), or in `folder`, in the tree that the input was found in.
    Where two inputs would make the same file, or one would be overwritten, the input's whole name is kept
    (`talk.mp3.srt`), and where that is not enough a number is added; a name that the system would refuse is cut. The
    same inputs give the same names again.
    """
    unique = list({(item.path, item.name): item for item in inputs}.values())
    bases = [_base(item, folder) for item in unique]
    stems = Counter(_stem(base) for base in bases)
    taken = {os.path.abspath(item.path) for item in unique}
    tasks = []
    for number, (item, base) in enumerate(zip(unique, bases, strict=True)):
        stem = _stem(base) if stems[_stem(base)] == 1 else base
        again = 1
        while taken & set(map(os.path.abspath, (outputs := _outputs(stem, formats)).values())):
            stem = base if again == 1 else f"{base}-{again}"
            again += 1
        taken |= {os.path.abspath(path) for path in outputs.values()}
        tasks.append(Task(number, item, outputs))
    return tasks


def refuse_replacing(tasks: Sequence[Task]) -> None:
    """AsrError when an output is there already: it may be somebody's work."""
    there = [path for task in tasks for path in task.outputs.values() if os.path.lexists(path)]
    if there:
        more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
        raise AsrError(f"{there[0]}{more} is there already: --resume keeps what is done, --overwrite replaces it")


def _base(item: Input, folder: Path | None) -> str:
    """Path of an input's outputs without their suffix, but with its own."""
    place = "/".join(part for part in PurePosixPath(item.place.replace(os.sep, "/")).parts if part not in ("..", "/"))
    if folder is not None:
        return os.path.join(folder, place)
    if item.path == STANDARD_INPUT:
        return place
    return item.path if item.row is None else os.path.join(os.path.dirname(item.path), place)


def _outputs(stem: str, formats: Sequence[str]) -> dict[str, str]:
    """The file of each format; of a name that is too long, its beginning and a digest of the whole."""
    folder, name = os.path.split(stem)
    room = LONGEST_NAME - max(len(form) + 1 for form in formats)
    if len(raw := os.fsencode(name)) > room:
        digest = hashlib.blake2b(raw, digest_size=4).hexdigest()
        start = raw[: room - len(digest) - 1].decode("utf-8", "ignore")
        stem = os.path.join(folder, f"{start}-{digest}")
    return {form: f"{stem}.{form}" for form in formats}


def _stem(base: str) -> str:
    return os.path.splitext(base)[0]

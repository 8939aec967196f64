"""Batches that do not fit into memory are done in parts."""

from __future__ import annotations

from collections.abc import Callable

import torch

from asr.errors import AsrError


class MemoryLimit:
    """Knows from which size on batches have to be cut, by having failed.

    Args:
        say: shows a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._too_much = float("inf")

    def parts(self, size: float, rows: int) -> int:
        """In how many parts a batch of `rows` rows and a size is to be done: a power of 2, or a row each."""
        parts = 1
        while size / parts >= self._too_much and parts < rows:
            parts *= 2
        return min(parts, rows)

    def failed(self, size: float, rows: int, parts: int, seconds: float) -> None:
        """`parts` parts of a batch were too large; `seconds` of padded audio is what it holds.

        Raises:
            AsrError: these were single utterances.
        """
        if parts >= rows:
            raise AsrError(
                f"an utterance of {seconds / max(1, rows):.1f} s does not fit into the memory of the device: lower "
                f"data.max_duration"
            )
        self._too_much = min(self._too_much, size / parts)
        self._say(
            f"out of memory: batches like this one of {seconds:.0f} s of audio are done in {self.parts(size, rows)} "
            f"parts from here on, with the same result; a lower data.batch_seconds is faster"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that a device, or the processor, has no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate" in str(error)


def release(device: torch.device) -> None:
    """Gives back what a failed attempt has left."""
    if device.type == "cuda":
        torch.cuda.empty_cache()

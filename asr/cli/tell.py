"""What a command has to say besides its results."""

from __future__ import annotations

import sys


def tell(line: str) -> None:
    """A line on standard error."""
    print(f"asr: {line}", file=sys.stderr, flush=True)

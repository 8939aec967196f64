"""What a command has to say besides its results."""

from __future__ import annotations

import sys

from asr.text import printable


def tell(line: str) -> None:
    """A line on standard error."""
    print("asr: " + "\n".join(map(printable, line.split("\n"))), file=sys.stderr, flush=True)

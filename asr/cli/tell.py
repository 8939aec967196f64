"""What a command has to say besides its results."""

from __future__ import annotations

import shutil
import sys
import textwrap

from asr.text import printable


def tell(line: str) -> None:
    """A line on standard error; on a terminal it is broken between words."""
    lines = [printable(one) for one in f"asr: {line}".split("\n")]
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        lines = [row for one in lines for row in _broken(one, columns)]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _broken(line: str, columns: int) -> list[str]:
    """Rows of a line; a word that is wider than they are stays whole."""
    return textwrap.wrap(line, max(1, columns), break_long_words=False, break_on_hyphens=False) or [""]

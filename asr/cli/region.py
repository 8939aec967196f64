"""The last rows of a terminal, which change in place; what is settled goes above them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby, takewhile

from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # synchronised output: shown at once; unknown to a terminal, it does nothing
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_ROW, ERASE_BELOW = "\x1b[K", "\x1b[J"  # from the cursor on

Handler = Callable[[int, object], None]
Cell = tuple[str, Style | None]  # a character and how it looks


class Region:
    """Rows at the end of what a terminal shows, rewritten where they change; a context manager for the main thread.

    Between two writes the cursor waits, hidden, at the start of the first row: a terminal whose width changes wraps
    its rows anew and takes the cursor along with its row, so that all that was ours stands below it and can be erased.
    What is typed meanwhile is not shown.

    Args:
        console: the terminal; one that follows control sequences (not `legacy_windows`).
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._rows: list[list[Cell]] = []
        self._size = console.size
        self._stale = False
        self._resources, self._terminal = ExitStack(), ExitStack()

    @property
    def width(self) -> int:
        """Columns."""
        return self.console.width

    @property
    def height(self) -> int:
        """Rows that there is room for."""
        return max(1, self.console.height - 1)

    def __enter__(self) -> Region:
        self._resources.enter_context(_noticed(self._lose, self._suspend))
        self._take()
        return self

    def __exit__(self, *exception: object) -> None:
        self._leave()
        self._resources.close()

    def _take(self) -> None:
        self._terminal.enter_context(_unechoed(self.console))
        self._write(HIDE_CURSOR)

    def _leave(self) -> None:
        """The terminal is as it was found."""
        self._write("\r" + ERASE_BELOW + SHOW_CURSOR)
        self._rows = []
        self._terminal.close()

    def _suspend(self, number: int, frame: object) -> None:
        """Ctrl-Z: the terminal is left, and taken again when the process goes on."""
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # stands here meanwhile
        signal.signal(number, self._suspend)
        self._take()
        self._lose()

    def show(self, rows: list[Text]) -> None:
        """Makes the region look like this: at most `height` rows, none wider than `width`."""
        changes = self._erased() + self._change([self._cells(row) for row in rows])
        if changes:
            self._write(BEGIN + changes + END)

    def settle(self, line: Text, rows: list[Text]) -> None:
        """A line goes above the region for good, which looks like `rows` then."""
        self._lose()
        above = self._ansi(Segment.simplify(self.console.render(line))).replace("\n", "\r\n")
        self._write(BEGIN + self._erased() + above + self._change([self._cells(row) for row in rows]) + END)

    def _lose(self, *_: object) -> None:
        """What the terminal shows is not known any more."""
        self._stale = True

    def _erased(self) -> str:
        """What erases a region that is not known or has another width; nothing otherwise."""
        if not self._stale and self._size == self.console.size:
            return ""
        self._stale, self._size, self._rows = False, self.console.size, []
        return "\r" + ERASE_BELOW

    def _change(self, rows: list[list[Cell]]) -> str:
        """What turns the rows that stand there into others; it ends where it began, at the first one's start."""
        before, self._rows = self._rows, rows
        changes, at = "", 0
        for number, row in enumerate(rows):
            if number >= max(1, len(before)):  # a row that there was not: the terminal may have to scroll
                changes += _down(number - 1 - at) + "\r\n"
                at = number
            written = self._rewrite(before[number] if number < len(before) else [], row)
            if written:
                changes += _down(number - at) + written
                at = number
        if len(rows) < len(before):
            changes += _down(len(rows) - at) + "\r" + ERASE_BELOW
            at = len(rows)
        return changes + (f"\x1b[{at}A" if at else "") + "\r" if changes else ""

    def _rewrite(self, before: list[Cell], row: list[Cell]) -> str:
        """What changes a row, from whichever column on."""
        if before == row:
            return ""
        start, end = _same(before, row), len(row)
        column, columns = _columns(row[:start]), _columns(row)
        if columns == _columns(before):
            end -= _same(before[start:][::-1], row[start:][::-1])
        runs = groupby(row[start:end], lambda cell: cell[1])
        changed = self._ansi(Segment("".join(c for c, _ in run), style) for style, run in runs)
        erase = ERASE_ROW if columns < _columns(before) else ""
        return f"\x1b[{column + 1}G" + changed + erase

    def _cells(self, row: Text) -> list[Cell]:
        drawn = self.console.render(row, self.console.options.update(no_wrap=True, overflow="crop"))
        return [(c, segment.style or None) for segment in drawn for c in segment.text if c != "\n"]

    def _ansi(self, segments: Iterable[Segment]) -> str:
        with self.console.capture() as captured:
            self.console.print(Segments(segments), end="", soft_wrap=True)
        return captured.get()

    def _write(self, output: str) -> None:
        self.console.file.write(output)
        self.console.file.flush()


def _same(one: list[Cell], other: list[Cell]) -> int:
    """How many cells both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _columns(cells: list[Cell]) -> int:
    return Segment("".join(c for c, _ in cells)).cell_length


def _down(rows: int) -> str:
    return f"\x1b[{rows}B" if rows else ""


@contextmanager
def _noticed(lose: Handler, suspend: Handler) -> Iterator[None]:
    """Calls `lose` when the terminal has another size or the process goes on after a stop, `suspend` at Ctrl-Z."""
    handlers = {"SIGWINCH": lose, "SIGCONT": lose, "SIGTSTP": suspend}
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _unechoed(console: Console) -> Iterator[None]:
    """What is typed would be written into the region: the terminal does not, and nobody else gets it later."""
    try:
        import termios

        terminal = console.file.fileno()
        before = termios.tcgetattr(terminal)
        ours = os.tcgetpgrp(terminal) == os.getpgrp()  # one in the background must leave the terminal alone
    except (ImportError, OSError, termios.error):
        ours = False
    if not ours:
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

"""A terminal in memory that knows the control sequences of the live display, and no others."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\x1b\[(\??)([\d;]*)([a-zA-Z])|[^\x1b]")


class Terminal:
    """What stands on a terminal of so many columns, with all that has scrolled out of it at the top.

    A changed width wraps its rows anew, as most terminals do; the cursor stays with its character.

    Attributes:
        rows: what stands there, from the first row on.
        row: of the cursor, counted from the same row.
        erasures: how often (part of) a row or all below was erased.
        modes: private modes that are set.
    """

    def __init__(self, columns: int, height: int) -> None:
        self.columns, self.height = columns, height
        self.rows, self.row, self.column = [""], 0, 0
        self.erasures, self.modes = 0, {"25"}

    def feed(self, output: str) -> None:
        end = 0
        for token in TOKEN.finditer(output):
            assert token.start() == end, repr(output[end:])
            end = token.end()
            private, argument, command = token.groups()
            if command:
                self._control(private, argument, command)
            else:
                self._write(token[0])
        assert end == len(output)

    def resize(self, columns: int) -> None:
        wrapped: list[str] = []
        for number, row in enumerate(self.rows):
            if number == self.row:
                at = len(wrapped)
            wrapped += [row[i : i + columns] for i in range(0, len(row), columns)] or [""]
        self.rows, self.row, self.columns = wrapped, at + self.column // columns, columns
        self.column %= columns

    @property
    def text(self) -> list[str]:
        """The rows without the empty ones below."""
        rows = [row.rstrip() for row in self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _control(self, private: str, argument: str, command: str) -> None:
        if command == "m":
            return
        if private:
            (self.modes.add if command == "h" else self.modes.remove)(argument)
            return
        count = int(argument or (0 if command in "JK" else 1))
        if command == "A":
            assert self.row - count >= max(0, len(self.rows) - self.height), "above the screen"
            self.row -= count
        elif command == "B":
            self.row += count
            assert self.row < len(self.rows), "below what was written"
        elif command == "G":
            self.column = count - 1
        else:
            assert command in "JK", command
            assert count == 0
            assert self.column < self.columns, "erases the last character where the cursor waits to wrap"
            self.erasures += 1
            self.rows[self.row] = self.rows[self.row][: self.column]
            if command == "J":
                del self.rows[self.row + 1 :]

    def _write(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append("")
        else:
            assert character.isprintable(), repr(character)
            if self.column == self.columns:
                self._write("\n")
                self.column = 0
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += 1

"""The changing rows at the end of a terminal: what stands on it, and how much is written for that."""

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from asr.cli.region import BEGIN, END, HIDE_CURSOR, SHOW_CURSOR, Region
from tests.terminal import Terminal

HEIGHT = 6
WIDTHS = st.integers(8, 20)
CONTENTS = st.lists(st.from_regex("[ab]( ?[ab]){,3}", fullmatch=True), min_size=1, max_size=HEIGHT - 1)


class Shown:
    """A region and the terminal that follows what it writes."""

    def __init__(self, width: int = 20) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=width, height=HEIGHT, force_terminal=True, legacy_windows=False)
        self.terminal = Terminal(width, HEIGHT)
        self.terminal.feed("$ asr live\r\n")
        self.region = Region(self.console)

    def written(self) -> str:
        """Since the last call; the terminal has got it."""
        output = self.file.getvalue()
        self.file.seek(0)
        self.file.truncate()
        self.terminal.feed(output)
        return output

    def show(self, *rows: str) -> str:
        self.region.show([Text(row) for row in rows])
        return self.written()

    def resize(self, width: int) -> None:
        self.terminal.resize(width)
        self.console.size = (width, HEIGHT)


@given(st.lists(st.tuples(st.none() | st.text("cd", min_size=1, max_size=8), CONTENTS), max_size=8))
def test_the_rows_stand_below_what_is_settled(steps):
    shown, above = Shown(), ["$ asr live"]
    with shown.region:
        for settled, rows in steps:
            if settled is None:
                shown.show(*rows)
            else:
                shown.region.settle(Text(settled), [Text(row) for row in rows])
                shown.written()
                above.append(settled)
            assert shown.terminal.text == above + rows
            assert (shown.terminal.row, shown.terminal.column) == (len(above), 0)
    shown.written()
    assert shown.terminal.text == above
    assert shown.terminal.modes == {"25"}, "the cursor is shown and no output is held back"


@given(st.lists(st.tuples(WIDTHS, CONTENTS), max_size=8))
def test_a_terminal_that_changes_its_width_keeps_no_copies(steps):
    shown = Shown()
    with shown.region:
        shown.show("the words", "the status")
        for width, rows in steps:
            shown.resize(width)
            shown.show(*rows)
            below = shown.terminal.row
            assert shown.terminal.text[below:] == rows
            assert "".join(shown.terminal.text[:below]).replace(" ", "") == "$asrlive"


def test_what_stands_there_already_is_not_written():
    shown = Shown()
    with shown.region:
        shown.show("the words", "the status")
        assert shown.show("the words", "the status") == ""
        written = shown.show("the words", "the stature")
    assert written == f"{BEGIN}\x1b[1B\x1b[10Gre\x1b[1A\r{END}"
    assert shown.terminal.erasures == 0


def test_a_change_within_a_row_leaves_both_its_ends_alone():
    shown = Shown()
    with shown.region:
        shown.show("##--  0:01  mic")
        assert shown.show("##--  0:02  mic") == f"{BEGIN}\x1b[10G2\r{END}"


def test_the_same_words_in_another_style_are_written_again():
    shown = Shown()
    with shown.region:
        shown.region.show([Text.assemble("good ", ("morning", "dim"))])
        shown.written()
        shown.region.show([Text.assemble("good morning")])
        assert "morning" in shown.written()


IN_A_TERMINAL = """
import sys, termios
from rich.console import Console
from rich.text import Text
from asr.cli.region import Region

def echo():
    return bool(termios.tcgetattr(1)[3] & termios.ECHO)

before = echo()
with Region(Console()) as region:
    region.show([Text("the words")])
    within = echo()
    sys.stdin.readline()
    region.show([Text("other words")])
print(before, within, echo())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminals there")
def test_what_is_typed_is_not_shown():
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm", "COLUMNS": "40", "LINES": "10"}
        os.execv(sys.executable, [sys.executable, "-c", IN_A_TERMINAL])
    output = b""
    while b"the words" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"typed\n")
    while output.count(b"True") < 2:
        output += os.read(terminal, 1000)
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
    screen = Terminal(40, 10)
    screen.feed(output.decode())
    assert screen.text == ["True False True"]


SHELL = """
import os, signal, subprocess, sys

signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen([sys.executable, "-c", sys.argv[1]], process_group=0)
os.tcsetpgrp(0, job.pid)
_, status = os.waitpid(job.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
print("stopped" if os.WIFSTOPPED(status) else "ended", flush=True)
os.tcsetpgrp(0, job.pid)
os.kill(job.pid, signal.SIGCONT)
sys.exit(job.wait())
"""
IN_FRONT = "import os, time\nwhile os.tcgetpgrp(1) != os.getpgrp(): time.sleep(0.01)\n"


@pytest.mark.skipif(sys.platform == "win32" or sys.version_info < (3, 11), reason="needs terminals and process groups")
def test_ctrl_z_leaves_the_terminal_as_it_was_and_fg_takes_it_again():
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm", "COLUMNS": "40", "LINES": "10"}
        os.execv(sys.executable, [sys.executable, "-c", SHELL, IN_FRONT + IN_A_TERMINAL])
    output = b""

    def until(text: bytes) -> bytes:
        nonlocal output
        while text not in output:
            output += os.read(terminal, 1000)
        seen, _, output = output.partition(text)
        return seen

    assert until(b"the words").count(HIDE_CURSOR.encode()) == 1
    os.write(terminal, b"\x1a")
    stopped = until(b"stopped")
    assert SHOW_CURSOR.encode() in stopped
    assert HIDE_CURSOR.encode() not in stopped
    until(HIDE_CURSOR.encode())
    os.write(terminal, b"typed\n")
    again = until(b"True False True")
    assert b"other words" in again
    assert b"typed" not in again
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)

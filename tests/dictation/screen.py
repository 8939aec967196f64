"""A desktop of our own: an X server without a screen, and a terminal with a line editor to type into."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NEEDED = ("Xvfb", "xdotool", "xclip", "xterm")


class Screen:
    """An X server; `name` is what DISPLAY shall be."""

    def __init__(self) -> None:
        missing = [tool for tool in NEEDED if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"no desktop can run here: scripts/install_sound installs {', '.join(missing)}")
        read, write = os.pipe()
        options = ["-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
        quiet = subprocess.DEVNULL
        self._server = subprocess.Popen(["Xvfb", *options], pass_fds=[write], stdout=quiet, stderr=quiet)
        os.close(write)
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()
        if not number:
            self.close()
            pytest.skip("Xvfb does not start here")
        self.name = f":{number}"

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()

    def run(self, *command: str, text: str = "") -> str:
        """Output of an X program; xclip leaves a process behind, which would hold a pipe open."""
        environment = os.environ | {"DISPLAY": self.name, "LC_ALL": "C.UTF-8"}
        with tempfile.TemporaryFile() as out:
            quiet = subprocess.DEVNULL
            subprocess.run(command, env=environment, input=text.encode(), stdout=out, stderr=quiet, timeout=30)
            out.seek(0)
            return out.read().decode()


class Editor:
    """A terminal that has the focus, whose lines go into a file; text can be taken back by backspace until `enter`."""

    def __init__(self, screen: Screen, file: Path) -> None:
        self._screen, self._file = screen, file
        file.touch()
        environment = os.environ | {"DISPLAY": screen.name, "LC_ALL": "C.UTF-8"}
        title = f"editor {file.name}"
        command = ["xterm", "-u8", "-T", title, "-e", "sh", "-c", f"stty iutf8 erase '^?'; exec cat > '{file}'"]
        self._terminal = subprocess.Popen(command, env=environment)
        self.window = screen.run("xdotool", "search", "--sync", "--onlyvisible", "--name", title).split()[0]
        self.focus()

    def focus(self) -> None:
        self._screen.run("xdotool", "windowfocus", "--sync", self.window)

    def lines(self, count: int) -> list[str]:
        """Presses Return, and waits until there are so many lines."""
        self.focus()
        self._screen.run("xdotool", "key", "Return")
        return self.wait(count)

    def wait(self, count: int, seconds: float = 30) -> list[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines = self._file.read_text("utf-8").splitlines()
            if len(lines) >= count:
                return lines
            time.sleep(0.05)
        return lines

    def close(self) -> None:
        self._terminal.terminate()
        self._terminal.wait()

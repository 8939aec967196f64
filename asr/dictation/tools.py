"""The desktop's programs: found when they are used, run, and named with their package when they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

from asr.errors import DesktopError

PACKAGES = {"wl-copy": "wl-clipboard", "notify-send": "libnotify-bin"}  # where they are not called as the program is
PATIENCE = 10.0  # s that a program may take


def find_tool(*names: str) -> str:
    """The first of the programs that is installed.

    Raises:
        DesktopError: none is.
    """
    for name in names:
        if shutil.which(name):
            return name
    packages = " or ".join(PACKAGES.get(name, name) for name in names)
    raise DesktopError(f"{' or '.join(names)} is missing: install the package {packages}")


def run_tool(*command: str, text: bytes | None = None) -> bytes:
    """What a program says when it is given `text` on standard input; what it leaves in the background goes on.

    Raises:
        DesktopError: it is missing, fails, or does not end in time.
    """
    utf8 = os.environ | {"LC_ALL": "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # pipes would be held open by such a program
        try:
            done = subprocess.run(command, input=text or b"", stdout=out, stderr=err, env=utf8, timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise DesktopError(f"{command[0]} does not answer") from error
        except OSError as error:
            raise DesktopError(f"{command[0]} does not start: {error.strerror}") from error
        out.seek(0)
        err.seek(0)
        if done.returncode:
            said = err.read().decode(errors="replace").strip().splitlines()
            raise DesktopError(f"{command[0]}: {said[-1] if said else f'failed with status {done.returncode}'}")
        return out.read()

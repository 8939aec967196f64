"""Runs the command line as a user does: a real process, real pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def asr(*arguments: object, stdin: bytes | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Output and exit status of `asr ARGUMENTS`."""
    done = subprocess.run(
        [sys.executable, "-m", "asr", *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        cwd=cwd,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

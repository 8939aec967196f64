"""Runs the command line in processes of its own, forked from one that has imported everything.

They save the seconds that importing takes, nothing else. What depends on how Python starts, on terminals or on open
pipes starts an interpreter of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.cli.preloaded"])


class Asr:
    """A process that runs `asr ARGUMENTS` in a session of its own, with as much of `subprocess.Popen` as tests need.

    Args:
        arguments: words of the command line.
        stdin: what comes through its pipe; without it there is no input.
        cwd: folder that it runs in.
        environment: variables beside this process's own.
    """

    def __init__(
        self, *arguments: object, stdin: bytes | None = None, cwd: Path | None = None, **environment: str
    ) -> None:
        self.args = ["asr", *map(str, arguments)]
        self._folder = tempfile.TemporaryDirectory(prefix="asr")
        folder = Path(self._folder.name)
        self._out, self._err = folder / "out", folder / "err"
        pipe = folder / "in" if stdin is not None else Path(os.devnull)
        if stdin is not None:
            os.mkfifo(pipe)
            threading.Thread(target=_feed, args=(pipe, stdin), daemon=True).start()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"} | environment
        files = (pipe, self._out, self._err)
        self._process = _forks.Process(target=_main, args=(self.args, files, cwd or Path.cwd(), dict(environment)))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    poll = returncode.fget

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Waits for the end, and returns standard output and standard error.

        Raises:
            subprocess.TimeoutExpired: it has not ended in `timeout` seconds; it is killed.
        """
        self._process.join(timeout)
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._out.read_text("utf-8"), self._err.read_text("utf-8")


def asr(*arguments: object, stdin: bytes | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Output and exit status of `asr ARGUMENTS`."""
    process = Asr(*arguments, stdin=stdin, cwd=cwd)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _feed(pipe: Path, data: bytes) -> None:
    with suppress(BrokenPipeError):
        pipe.write_bytes(data)


def _main(arguments: list[str], files: tuple[Path, Path, Path], folder: Path, environment: dict[str, str]) -> None:
    """In the forked process: what the shell and the interpreter do before `asr.cli.main`."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path, flags in zip((0, 1, 2), files, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True):
        os.dup2(os.open(path, flags), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    sys.argv = arguments
    from asr.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server that forks ignores it
    main()

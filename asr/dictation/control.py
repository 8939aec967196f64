"""One dictation a user, and how another process, which a hot key starts, tells it what to do."""

from __future__ import annotations

import fcntl
import os
import socket
import socketserver
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from asr.errors import DesktopError

PATIENCE = 5.0  # s that an answer may take
LONGEST = 64  # bytes of an order


class Order(str, Enum):
    """What a dictation can be told: `toggle` begins or ends, `cancel` ends and drops the open utterance."""

    begin = "begin"
    end = "end"
    toggle = "toggle"
    cancel = "cancel"
    quit = "quit"


def runtime_folder() -> Path:
    """Where this user's sockets are, with nobody else's rights to it.

    Raises:
        DesktopError: it cannot be made, or is not this user's alone.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "asr" if base else Path(tempfile.gettempdir()) / f"asr-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise DesktopError(f"{folder}: {error.strerror}; name another folder with XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise DesktopError(f"{folder} is not a folder of yours alone: remove it, or name another with XDG_RUNTIME_DIR")
    return folder


def send(order: Order) -> str | None:
    """What the dictation that runs answers; None if none runs.

    Raises:
        DesktopError: it does not answer.
    """
    path = runtime_folder() / "dictate.sock"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        try:
            client.connect(str(path))
            client.sendall(f"{order.value}\n".encode())
            answer = client.makefile().readline()
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise DesktopError(f"the dictation at {path} does not answer: {error}") from error
    return answer.rstrip("\n")


class Control:
    """Takes orders from other processes of this user, in a thread of its own, while it is entered.

    Args:
        obey: does what it is told and returns one line about that.

    Raises:
        DesktopError: on entering, if a dictation of this user runs already.
    """

    def __init__(self, obey: Callable[[Order], str]) -> None:
        self._obey = obey

    def __enter__(self) -> Control:
        folder = runtime_folder()
        self._path = folder / "dictate.sock"
        self._lock = os.open(folder / "dictate.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
            self._server = _Server(str(self._path), _handler(self._obey))
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise DesktopError("a dictation runs already: asr dictate --quit ends it") from error
            raise DesktopError(f"{self._path}: {error}; name another folder with XDG_RUNTIME_DIR") from error
        self._path.chmod(0o600)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._path.unlink(missing_ok=True)
        os.close(self._lock)


class _Server(socketserver.UnixStreamServer):
    def handle_error(self, request: object, address: object) -> None:
        """A client that went away is nothing to tell."""


def _handler(obey: Callable[[Order], str]) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = 1.0  # s

        def handle(self) -> None:
            word = self.rfile.readline(LONGEST).decode(errors="replace").strip()
            known = word in Order.__members__
            self.wfile.write(f"{obey(Order(word)) if known else f'no order {word}'}\n".encode())

    return Handler

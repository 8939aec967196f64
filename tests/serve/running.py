"""A server in a thread of the test's process, at real sockets of the loopback address."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from asr.recognition.endpoint import EndpointRules
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.serve.limits import Limits
from asr.serve.server import Place, Server
from tests.recordings import RATE, speech_like

OPTIONS = StreamOptions(320, 0, second_pass=False, partials="ctc", endpoint=EndpointRules(0.8, 5, 2))
LIMITS = Limits()
SOUND = speech_like(3, 6)  # in which the small model hears words from beginning to end
PCM = (SOUND * 32767).astype("<i2").tobytes()
SECOND = 2 * RATE  # bytes of it


class Running:
    """A server that clients can come to.

    Attributes:
        port, wyoming: where.
    """

    def __init__(self, server: Server) -> None:
        self.server, self.service = server, server.service
        self.port, self.wyoming = server.ports

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def measure(self, name: str) -> float:
        """One of its measures."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=30) as answer:
            values = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines())
        return float(values.get(name, 0))


@contextmanager
def running(
    recognizer: Recognizer, limits: Limits = LIMITS, options: StreamOptions = OPTIONS, **place: Any
) -> Iterator[Running]:
    ready, loops = threading.Event(), []

    def begin(server: Server) -> None:
        loops.append(asyncio.get_running_loop())
        ready.set()

    server = Server(recognizer, Place(**{"port": 0, "wyoming": 0, **place}), limits, options, 1, "tiny", begin)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield Running(server)
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.02)


def pieces(data: bytes, size: int = SECOND // 4) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def loads(message: str | bytes) -> dict:
    return json.loads(message)


def floats(pcm: bytes) -> bytes:
    return (np.frombuffer(pcm, "<i2") / np.float32(32768)).astype("<f4").tobytes()

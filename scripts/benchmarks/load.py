"""How many people one server listens to, and what becomes of it under attack.

    python scripts/benchmarks/load.py --streams 4 8 12 --seconds 30 --loop tests/data/sample.flac
    python scripts/benchmarks/load.py --attack

starts `asr serve` on the loopback address. `--streams`: so many clients at a time speak at real-time pace (default: the
repository's sample over and over); a word is late by the time from its end to when it first stands in a message.
`--attack`: clients that come and vanish, that send nothing, that never read; streams must be gone after it, and memory
as before. Exit status 1 when a promise is broken. Options behind `--` go to `asr serve`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import psutil
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from asr.audio.files import read_audio

SAMPLE = Path(__file__).parents[2] / "tests" / "data" / "sample.flac"
RATE = 16000
BLOCK = 0.1  # s of sound in a message
PAUSE = 2.0  # s of silence after each pass of the recording
LATE = 1.0  # s that 99 of 100 words may be late
COMERS, MUTE, DEAF = 200, 10, 10  # clients of the attack
MOST_GROWTH_MB = 40.0  # of resident memory by the attack, once it has been through one
FORGOTTEN = 30.0  # s in which vanished clients must be forgotten


class Serving:
    """A server in a process of its own."""

    def __init__(self, options: list[str]) -> None:
        command = [sys.executable, "-m", "asr", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "serving" not in line:
            sys.exit(f"load: {line}{self.process.stderr.read()}")
        self.http = line.split()[2].rstrip("/")
        self.ws = self.http.replace("http", "ws", 1)

    def measures(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=30) as answer:
            return {name: float(value) for name, value in map(str.split, answer.read().decode().splitlines())}

    @property
    def memory(self) -> float:
        """Resident MiB."""
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def end(self) -> None:
        self.process.terminate()
        if self.process.wait(15) != 0:
            sys.exit(f"load: the server ended with {self.process.returncode}: {self.process.stderr.read()}")


class Speaker:
    """A client that speaks in real time, and writes down when each word came.

    Attributes:
        late: of each word of the finals (seconds).
        refused: it was not let in, or sent away.
    """

    def __init__(self, server: Serving, sound: np.ndarray, seconds: float) -> None:
        self._server, self._sound, self._seconds = server, sound, seconds
        self.late: list[float] = []
        self.refused = False
        self._begun = 0.0
        self._seen: list[float] = []  # when each word of the open segment first stood there

    async def run(self, delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            async with connect(f"{self._server.ws}/v1/captions", max_size=None, ping_timeout=None) as client:
                await client.send(json.dumps({"type": "start", "rate": RATE}))
                self._begun = time.monotonic()
                speaking = asyncio.create_task(self._speak(client))
                async for message in client:
                    self._hear(json.loads(message))
                await speaking
        except (InvalidStatus, ConnectionClosed, OSError):
            self.refused = True

    async def _speak(self, client) -> None:
        size, sent = round(BLOCK * RATE), 0
        while sent < self._seconds * RATE:
            block = np.take(self._sound, range(sent, sent + size), mode="wrap")
            sent += size
            await asyncio.sleep(max(0.0, self._begun + sent / RATE - time.monotonic()))
            await client.send(block.tobytes())
        await client.send('{"type": "end"}')

    def _hear(self, message: dict) -> None:
        if message["type"] != "segment":
            return
        now = time.monotonic() - self._begun
        words = (message["settled"] + message["tentative"]).split()
        self._seen += [now] * (len(words) - len(self._seen))
        if message["final"]:
            self.late += [seen - word["end"] for seen, word in zip(self._seen, message["words"], strict=False)]
            self._seen = []


async def measure(server: Serving, sound: np.ndarray, count: int, seconds: float) -> bool:
    """Prints how late words are with so many streams; whether they are in time."""
    before = server.measures()
    speakers = [Speaker(server, sound, seconds) for _ in range(count)]
    await asyncio.gather(*(speaker.run(i * 0.37 % 3) for i, speaker in enumerate(speakers)))
    after = server.measures()
    refused = sum(speaker.refused for speaker in speakers)
    late = np.array([late for speaker in speakers for late in speaker.late])
    if not len(late):
        print(f"{count:4d} streams: no words; {refused} refused")
        return False
    p50, p90, p99 = np.percentile(late, (50, 90, 99))
    busy, heard = (after[name] - before[name] for name in ("asr_busy_seconds_total", "asr_sound_seconds_total"))
    print(
        f"{count:4d} streams, {refused} refused: words late by {p50:.2f} s (p50), {p90:.2f} (p90), {p99:.2f} (p99); "
        f"real-time factor {busy / max(heard, 1e-9):.3f}",
        flush=True,
    )
    return p99 <= LATE


async def attack(server: Serving, sound: np.ndarray) -> list[str]:
    """Everything that clients do to a server; what went wrong."""
    grown, faults = [], []
    for _ in range(2):
        async with AsyncExitStack() as stack:
            for path in ("captions", "watch"):
                for _ in range(MUTE // 2):
                    await stack.enter_async_context(_guest(server, path))
            deaf = [_deaf(server, sound) for _ in range(DEAF)]
            await asyncio.gather(*(_vanish(server, sound, i) for i in range(COMERS)))
        for one in deaf:
            one.close()
        deadline = time.monotonic() + FORGOTTEN
        while (left := server.measures())["asr_streams"] or left["asr_connections"] > 1:
            if time.monotonic() > deadline:
                faults.append(f"{left['asr_streams']:.0f} streams and {left['asr_connections']:.0f} connections left")
                break
            await asyncio.sleep(0.2)
        grown.append(server.memory)
    print(f"attack: {grown[0]:.0f} MiB after the first, {grown[1]:.0f} after the second")
    if grown[1] - grown[0] > MOST_GROWTH_MB:
        faults.append(f"memory grew by {grown[1] - grown[0]:.0f} MiB")
    return faults


@asynccontextmanager
async def _guest(server: Serving, path: str) -> AsyncIterator[None]:
    """Connected, and silent; or refused."""
    try:
        async with connect(f"{server.ws}/v1/{path}", ping_timeout=None):
            yield
    except InvalidStatus:
        yield


async def _vanish(server: Serving, sound: np.ndarray, number: int) -> None:
    """Comes, speaks for a moment, and is gone without a word."""
    await asyncio.sleep(number * 0.05)
    try:
        client = await connect(f"{server.ws}/v1/captions", ping_timeout=None)
    except (InvalidStatus, OSError):
        return
    await client.send(json.dumps({"type": "start", "rate": RATE}))
    await client.send(sound[: RATE // 2].tobytes())
    client.transport.abort()


def _deaf(server: Serving, sound: np.ndarray) -> socket.socket:
    """Asks for a stream, sends sound, and never reads."""
    client = socket.create_connection(("127.0.0.1", int(server.http.rpartition(":")[2])))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.sendall(
        b"GET /vosk HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    data = sound[: RATE // 2].tobytes()
    client.sendall(struct.pack("!BBH4x", 0x82, 0x80 | 126, len(data)) + data)
    return client


def main() -> None:
    own, _, serve = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[], help="how many at a time, one run for each")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run")
    parser.add_argument("--loop", default=str(SAMPLE), help="recording that is spoken")
    parser.add_argument("--attack", action="store_true")
    args = parser.parse_args(own.split())
    speech = read_audio(args.loop, RATE)
    sound = (np.pad(speech, (0, round(PAUSE * RATE))) * 32767).astype("<i2")
    server, faults = Serving(serve.split()), []
    try:
        for count in args.streams:
            if not asyncio.run(measure(server, sound, count, args.seconds)):
                print(f"     {count} are too many here: 1 of 100 words is later than {LATE:.0f} s")
        if args.attack:
            faults = asyncio.run(attack(server, sound))
    finally:
        server.end()
    for fault in faults:
        print(f"load: {fault}", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

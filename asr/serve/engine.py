"""Where streams are advanced: the one place to change if they shall be advanced in another way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from asr.audio.samples import Samples
from asr.events import Event
from asr.recognition.options import StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.recognition.stream import Stream

Value = TypeVar("Value")


class Engine:
    """One recogniser for all: a few threads, each of which advances one stream at a time by one step.

    Steps are taken in the order in which they were asked for. A stream's next step is asked for after its last one, so
    that no stream, however much of its sound is waiting, gets more than its share.

    Args:
        recognizer: what recognises.
        threads: how many.

    Attributes:
        busy: seconds that threads have computed, together.
        sound: seconds of sound that they have decoded.
    """

    def __init__(self, recognizer: Recognizer, threads: int) -> None:
        self.recognizer = recognizer
        self.busy = self.sound = 0.0
        self._threads = ThreadPoolExecutor(threads, "decode", torch.set_num_threads, (1,))

    def open(self, options: StreamOptions, warn: Callable[[str], None] | None = None) -> Stream:
        """A new stream."""
        return self.recognizer.stream(options, warn)

    async def advance(self, stream: Stream, samples: Samples, rate: float) -> list[Event]:
        """What the next samples bring about; errors as of `Stream.accept`."""
        events, seconds = await self.run(lambda: (stream.accept(samples, rate), len(samples) / rate))
        self.sound += seconds
        return events

    async def finish(self, stream: Stream) -> list[Event]:
        """The last events of a stream."""
        return await self.run(stream.finish)

    async def run(self, work: Callable[[], Value]) -> Value:
        """What a piece of work gives, done by one of the threads."""
        took, value = await asyncio.get_running_loop().run_in_executor(self._threads, _timed, work)
        self.busy += took
        return value

    def close(self) -> None:
        """Ends the threads, with what they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _timed(work: Callable[[], Value]) -> tuple[float, Value]:
    begun = time.perf_counter()
    value = work()
    return time.perf_counter() - begun, value

"""What people choose to show: segments of shared sessions, for those who read along."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import Any

KEPT = 500  # finals that somebody who comes later still sees
UNREAD = 64  # messages that wait for a slow reader; then partials are left out

Message = dict[str, Any]


class Board:
    """Finals that were shared last, and everybody who watches."""

    def __init__(self) -> None:
        self._finals: OrderedDict[tuple[str, int], Message] = OrderedDict()
        self._watchers: set[_Watcher] = set()

    def show(self, speaker: str, message: Message) -> None:
        """A segment of a speaker's session; a final one that is known already is shown once."""
        key, message = (speaker, message["number"]), {**message, "speaker": speaker}
        if message["final"]:
            self._finals[key] = message
            if len(self._finals) > KEPT:
                self._finals.popitem(last=False)
        for watcher in self._watchers:
            watcher.put(message)

    async def watch(self) -> AsyncIterator[Message]:
        """What was shared until now, and then what is; ends only with who iterates."""
        watcher = _Watcher(list(self._finals.values()))
        self._watchers.add(watcher)
        try:
            while True:
                yield await watcher.get()
        finally:
            self._watchers.discard(watcher)


class _Watcher:
    """Messages on their way to one who watches."""

    def __init__(self, known: list[Message]) -> None:
        self._unread: deque[Message] = deque(known, KEPT)
        self._came = asyncio.Event()

    def put(self, message: Message) -> None:
        last = self._unread[-1] if self._unread else None
        if last is not None and not last["final"] and last["speaker"] == message["speaker"]:
            self._unread.pop()
        if message["final"] or len(self._unread) < UNREAD:
            self._unread.append(message)
        self._came.set()

    async def get(self) -> Message:
        while not self._unread:
            self._came.clear()
            await self._came.wait()
        return self._unread.popleft()

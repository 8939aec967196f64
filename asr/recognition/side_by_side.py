"""Several live sessions at once, one a source: people before microphones of their own, or a call and who answers it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from asr.errors import AudioError
from asr.events import Event
from asr.recognition.session import Source, listen
from asr.recognition.stream import Stream


class ChannelView(Protocol):
    """A view that is told where an event was heard: in which channel, from 1."""

    def event(self, event: Event, channel: int) -> None: ...
    def progress(self, level: float, lag: float, seconds: float, peak: float) -> None: ...
    def tell(self, line: str) -> None: ...


def listen_side_by_side(sources: Sequence[Source], streams: Sequence[Stream], view: ChannelView) -> bool:
    """Delivers what is heard in every source, each in a thread with its stream, until all end; whether that was words.

    The view is called from all of these threads. A source that fails ends the others.

    Raises:
        AudioError: a source failed; what was heard until then has been delivered.
    """
    heard, failures = [], []

    def run(channel: int, source: Source, stream: Stream) -> None:
        try:
            heard.append(listen(source, stream, _Side(view, channel)))
        except BaseException as error:
            failures.append(error)
            Sources(sources).stop()

    pairs = enumerate(zip(sources, streams, strict=True), 1)
    threads = [threading.Thread(target=run, args=(channel, *pair), daemon=True) for channel, pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((error for error in failures if not isinstance(error, AudioError)), failures[0])
    return any(heard)


class Sources:
    """Several sources that are stopped together."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def stop(self) -> None:
        for source in self._sources:
            source.stop()


class _Side:
    """The view of one session among several."""

    def __init__(self, view: ChannelView, channel: int) -> None:
        self._view, self._channel = view, channel
        self.progress, self.tell = view.progress, view.tell

    def event(self, event: Event) -> None:
        self._view.event(event, self._channel)

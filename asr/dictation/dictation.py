"""Dictations one after the other: the microphone is open, and a stream runs, only while one is on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from asr.audio.devices import restart_portaudio
from asr.dictation.control import Order
from asr.errors import AudioError, DesktopError, MicrophoneError

if TYPE_CHECKING:
    from asr.audio.microphone import Statistics
    from asr.dictation.writing import Dictated
    from asr.recognition.session import Source
    from asr.recognition.stream import Stream


class Dictation:
    """What begins and ends dictations as it is told, by `obey`, from another thread or a signal handler.

    Args:
        open_source: a source that has not been entered yet; MicrophoneError if there is none.
        open_stream: a stream for one dictation.
        open_view: where its words go.
        announce: called with a line, and whether a dictation begins, when one does and when it has ended.
        tell: gets one line about each thing that happens.
        summarise: gets what was lost of each dictation's sound.
    """

    def __init__(
        self,
        open_source: Callable[[], Source],
        open_stream: Callable[[], Stream],
        open_view: Callable[[], Dictated],
        announce: Callable[[str, bool], None],
        tell: Callable[[str], None],
        summarise: Callable[[Statistics], None],
    ) -> None:
        self._open_source, self._open_stream, self._open_view = open_source, open_stream, open_view
        self._announce, self._tell, self._summarise = announce, tell, summarise
        self._changed = threading.Condition()  # its lock is an RLock: a signal handler may take it once more
        self._wanted = self._over = self._has_listened = False
        self._source: Source | None = None
        self._stream: Stream | None = None
        self._view: Dictated | None = None

    def obey(self, order: Order) -> str:
        """Does it, or has it done; one line that says what."""
        with self._changed:
            if order is Order.toggle:
                order = Order.end if self._wanted else Order.begin
            was, self._wanted = self._wanted, order is Order.begin
            self._over |= order is Order.quit
            if not self._wanted and self._source is not None:
                if order is Order.cancel:
                    self._view.cancel()
                self._source.stop()
                self._stream.hurry()
            self._changed.notify()
        if order is Order.begin:
            return "dictation is on already" if was else "dictation begins"
        if order is Order.quit:
            return "asr dictate ends"
        return "no dictation is on" if not was else f"dictation {'is cancelled' if order is Order.cancel else 'ends'}"

    def stop(self) -> None:
        """Finishes what is being said and ends `run`."""
        self.obey(Order.quit)

    def run(self) -> None:
        """Dictations until `quit`.

        Raises:
            MicrophoneError: the first dictation finds no microphone; later that is told, and waited for the next order.
        """
        while self._begins():
            try:
                self._dictate()
            except (AudioError, MicrophoneError) as error:
                with self._changed:
                    self._wanted = False
                if not self._has_listened:
                    raise
                self._tell(str(error))
                self._announced(str(error), False)

    def _begins(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._over)
            return not self._over

    def _dictate(self) -> None:
        from asr.recognition.session import listen

        self._announced("dictation begins", True)
        with self._open_view() as view, self._opened() as source:
            stream = self._open_stream()
            with self._changed:
                self._source, self._stream, self._view = source, stream, view
                if not self._wanted:
                    source.stop()
            self._tell(f"listening to {source.name}")
            try:
                listen(source, stream, view)
            finally:
                with self._changed:
                    self._source = self._stream = self._view = None
        self._summarise(source.statistics)
        self._tell("dictation has ended")
        self._announced("dictation has ended", False)

    @contextmanager
    def _opened(self) -> Iterator[Source]:
        """The source, open. Devices may have come and gone since the last time, which PortAudio sees when restarted."""
        with ExitStack() as stack:
            try:
                source = stack.enter_context(self._open_source())
            except MicrophoneError:
                if not self._has_listened:
                    raise
                restart_portaudio()
                source = stack.enter_context(self._open_source())
            self._has_listened = True
            yield source

    def _announced(self, line: str, begins: bool) -> None:
        try:
            self._announce(line, begins)
        except DesktopError as error:
            self._tell(str(error))

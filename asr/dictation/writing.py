"""How words get into the focused window, or to a program; partials are corrected there as they change."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from itertools import takewhile
from queue import SimpleQueue
from typing import Protocol

from asr.dictation.clipboard import Contents, find_selections
from asr.dictation.desktop import Keyboard, find_keyboard
from asr.errors import DesktopError
from asr.events import Endpoint, Event, Final, Partial
from asr.writing.tokens import join

PASTED = 0.5  # s after which a program has taken what it was told to paste


class Writer(Protocol):
    """Where the words go. Each method raises DesktopError if that does not work."""

    def write(self, text: str) -> None: ...
    def erase(self, count: int) -> None: ...

    def focus(self) -> bytes | None:
        """Something that is the same as long as the words go to the same place; None if that cannot be known."""


class Pasting:
    """Writes by way of the clipboard, whatever the keyboard layout; what it held before is put back.

    Raises:
        DesktopError: no desktop, or a program for it is missing.
    """

    def __init__(self) -> None:
        self._keyboard: Keyboard = find_keyboard()
        self._selections = find_selections()
        self.erase, self.focus = self._keyboard.erase, self._keyboard.focus

    def write(self, text: str) -> None:
        contents = Contents(text.encode())
        before = [selection.read() for selection in self._selections]
        try:
            for selection in self._selections:
                selection.write(contents)
            self._keyboard.paste()
            time.sleep(PASTED)
        finally:
            for selection, kept in zip(self._selections, before, strict=True):
                if selection.read() == contents:  # else the user has copied something meanwhile
                    selection.write(kept)


class Typing(Pasting):
    """Writes key by key; what the keyboard has no keys for is pasted."""

    def write(self, text: str) -> None:
        if self._keyboard.has(text):
            self._keyboard.type(text)
        else:
            super().write(text)


class Piping:
    """Runs a command of the shell for each final, the text a line on standard input; not for partials."""

    def __init__(self, command: str) -> None:
        self._command = command

    def write(self, text: str) -> None:
        done = subprocess.run(self._command, shell=True, input=f"{text.strip()}\n".encode())
        if done.returncode:
            raise DesktopError(f"--command {self._command}: ended with status {done.returncode}")


class Dictated:
    """A view of a session: finals, and partials where asked, are written joined as by `asr.writing.tokens.join`.

    While it is entered, it writes in a thread of its own, so that recognition does not wait for the desktop; of several
    partials that wait, the newest is written. On leaving, everything has been.

    Args:
        writer: where to.
        partials: words are written while they are said, and corrected by backspace. Where the writer knows that another
            window has got the focus meanwhile, nothing is erased there: it gets the whole utterance.
        tell: gets one line about each trouble.
    """

    def __init__(self, writer: Writer, partials: bool, tell: Callable[[str], None]) -> None:
        self._writer, self._partials, self.tell = writer, partials, tell
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._before = ""  # the last letters of what is written of earlier utterances
        self._open = ""  # what is written of the open utterance
        self._place: bytes | None = None  # where that is
        self._cancelled = False

    def __enter__(self) -> Dictated:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._events.put(None)
        self._thread.join()

    def event(self, event: Event) -> None:
        self._events.put(event)

    def progress(self, level: float, lag: float, seconds: float, peak: float) -> None:
        """Nothing: the desktop shows no meter."""

    def cancel(self) -> None:
        """Nothing more is written, and what is of the open utterance goes."""
        self._cancelled = True

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            if self._cancelled or (isinstance(event, Partial) and not (self._partials and self._events.empty())):
                continue
            text = "" if isinstance(event, Endpoint) else join([self._before, event.text])[len(self._before) :]
            self._correct(text)
            if isinstance(event, Final):
                self._open, self._before = "", (self._before + text)[-2:]
        self._correct("")

    def _correct(self, text: str) -> None:
        """What is written of the open utterance becomes `text`."""
        try:
            if self._open and self._writer.focus() != self._place:
                self.tell("another window has got the focus: it gets the whole utterance")
                self._open = ""
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._open, text, strict=False)))
            if len(self._open) > common:
                self._writer.erase(len(self._open) - common)
                self._open = text[:common]
            if len(text) > common:
                if self._partials and not self._open:
                    self._place = self._writer.focus()
                self._writer.write(text[common:])
                self._open = text
        except DesktopError as error:
            self.tell(str(error))

"""The desktop that a process is on: X11, Wayland or macOS, and its keyboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Protocol

from asr.dictation.tools import find_tool, run_tool
from asr.errors import DesktopError

SETTLED = "50"  # ms after which a window knows the keys of one wtype, and the next one may bring its own


class Keyboard(Protocol):
    """Presses keys as if the user did, in the window that has the focus."""

    def paste(self) -> None: ...
    def has(self, text: str) -> bool:
        """Whether there are keys for all of it."""

    def type(self, text: str) -> None: ...
    def erase(self, count: int) -> None: ...

    def focus(self) -> bytes | None:
        """Something that is the same as long as the same window has the focus; None if that cannot be known."""


def on_wayland() -> bool:
    return bool(os.environ.get("WAYLAND_DISPLAY"))


def find_keyboard() -> Keyboard:
    """The keyboard of this desktop.

    Raises:
        DesktopError: there is no desktop here, or the program that presses its keys is missing.
    """
    if sys.platform == "darwin":
        return MacKeyboard()
    if on_wayland():
        return WaylandKeyboard()
    if os.environ.get("DISPLAY"):
        return XKeyboard()
    raise DesktopError(
        "no desktop to type into: neither WAYLAND_DISPLAY nor DISPLAY is set; --command gives the words to a program"
    )


class XKeyboard:
    """By xdotool. Shift+Insert pastes in nearly every program, terminals included, and is in every keyboard layout.

    Keys for what a layout lacks are made for the moment, and programs that are slow to see that lose the letter.
    """

    def __init__(self) -> None:
        find_tool("xdotool")

    def paste(self) -> None:
        run_tool("xdotool", "key", "--clearmodifiers", "shift+Insert")

    def has(self, text: str) -> bool:
        return text.isascii()

    def type(self, text: str) -> None:
        run_tool("xdotool", "type", "--clearmodifiers", "--file", "-", text=text.encode())

    def erase(self, count: int) -> None:
        run_tool("xdotool", "key", "--clearmodifiers", *["BackSpace"] * count)

    def focus(self) -> bytes:
        return run_tool("xdotool", "getwindowfocus")


class WaylandKeyboard:
    """By wtype, where the compositor lets it (not GNOME's), else by ydotool 1.0 or newer and its daemon."""

    def __init__(self) -> None:
        self._tool = find_tool("wtype", "ydotool")

    def paste(self) -> None:
        self._press(("-M", "shift", "-k", "Insert", "-m", "shift"), ("key", "42:1", "110:1", "110:0", "42:0"))

    def has(self, text: str) -> bool:
        return self._tool == "wtype" or text.isascii()

    def type(self, text: str) -> None:
        self._press(("-",), ("type", "--file", "-"), text)

    def erase(self, count: int) -> None:
        self._press(("-k", "BackSpace") * count, ("key", *("14:1", "14:0") * count))

    def focus(self) -> None:
        return None

    def _press(self, wtype: Sequence[str], ydotool: Sequence[str], text: str = "") -> None:
        if self._tool == "wtype":
            try:
                run_tool("wtype", "-s", SETTLED, *wtype, text=text.encode())
                return
            except DesktopError as error:
                if "virtual keyboard" not in str(error):
                    raise
            self._tool = find_tool("ydotool")
        run_tool("ydotool", *ydotool, text=text.encode())


class MacKeyboard:
    """By System Events, which the user allows under Privacy & Security, Accessibility."""

    def paste(self) -> None:
        _system_events('keystroke "v" using command down')

    def has(self, text: str) -> bool:
        return text.isascii()

    def type(self, text: str) -> None:
        _system_events("keystroke (item 1 of argv)", text)

    def erase(self, count: int) -> None:
        _system_events(f"repeat {count} times\nkey code 51\nend repeat")

    def focus(self) -> None:
        return None


def _system_events(script: str, *arguments: str) -> None:
    lines = f'on run argv\ntell application "System Events"\n{script}\nend tell\nend run'
    run_tool("osascript", "-e", lines, *arguments)

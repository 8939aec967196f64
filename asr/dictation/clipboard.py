"""What the desktop keeps for pasting: read, replaced and put back by the program that is there for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from asr.dictation.desktop import on_wayland
from asr.dictation.tools import find_tool, run_tool
from asr.errors import DesktopError

# What is kept of contents that are offered in several forms: the first of these, else the first at all. X11's programs
# and wl-copy can give back one form only.
FORMS = ("x-special/gnome-copied-files", "image/png", "UTF8_STRING", "text/plain;charset=utf-8", "text/plain", "STRING")
TEXTS = FORMS[2:]


@dataclass(frozen=True)
class Contents:
    """Something that can be pasted; `form` is its type, None for text."""

    data: bytes
    form: str | None = None


@dataclass(frozen=True)
class Selection:
    """One of the places that hold something to paste, and the commands for it.

    Attributes:
        get, put, clear: read it, set it from standard input, empty it.
        forms: lists the types in which its contents are offered; none where there is only text.
        form: what goes before a type.
    """

    get: tuple[str, ...]
    put: tuple[str, ...]
    clear: tuple[str, ...]
    forms: tuple[str, ...] = ()
    form: str = "-t"

    def read(self) -> Contents | None:
        """What can be pasted; None if nothing can."""
        try:
            form = self._best_form() if self.forms else None
            data = run_tool(*self.get, *((self.form, form) if form else ()))
        except DesktopError:  # so they answer when it is empty
            return None
        return Contents(data, form) if data else None

    def write(self, contents: Contents | None) -> None:
        if contents is None:
            run_tool(*self.clear)
        else:
            run_tool(*self.put, *((self.form, contents.form) if contents.form else ()), text=contents.data)

    def _best_form(self) -> str | None:
        offered = run_tool(*self.forms).decode(errors="replace").split()
        form = next((form for form in FORMS if form in offered), None)
        others = (form for form in offered if "/" in form)
        return None if form in TEXTS else form or next(others, None)


def find_selections() -> list[Selection]:
    """The clipboard, and on X11 and Wayland what the middle mouse button pastes, which terminals take instead.

    Raises:
        DesktopError: the program for it is missing.
    """
    if sys.platform == "darwin":
        return [Selection(("pbpaste",), ("pbcopy",), ("pbcopy",))]
    if on_wayland():
        find_tool("wl-copy")
        return [
            Selection(
                ("wl-paste", "--no-newline", *which),
                ("wl-copy", *which),
                ("wl-copy", "--clear", *which),
                ("wl-paste", "--list-types", *which),
            )
            for which in ((), ("--primary",))
        ]
    if find_tool("xclip", "xsel") == "xsel":
        return [
            Selection(("xsel", "-o", which), ("xsel", "-i", which), ("xsel", "-c", which))
            for which in ("--clipboard", "--primary")
        ]
    return [
        Selection(
            ("xclip", "-o", *which),
            ("xclip", "-i", *which),
            ("xclip", "-i", *which),
            ("xclip", "-o", *which, "-t", "TARGETS"),
        )
        for which in (("-selection", "clipboard"), ("-selection", "primary"))
    ]

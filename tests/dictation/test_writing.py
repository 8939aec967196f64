"""Words into a real window of a real X server, and to a command."""

from __future__ import annotations

import sys
import time

import pytest

from asr.dictation import clipboard, desktop, writing
from asr.dictation.tools import run_tool
from asr.dictation.writing import Dictated, Pasting, Piping, Typing
from asr.errors import DesktopError
from asr.events import Endpoint, Final, Partial
from tests.dictation.screen import Editor, Screen

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11 and Wayland are Linux's")
WRITERS = {"paste": Pasting, "keys": Typing}
LETTERS = "Größe, naïve café: 漢字 かな Привет “yes” 100 €"


@pytest.fixture(scope="module")
def server():
    screen = Screen()
    yield screen
    screen.close()


@pytest.fixture
def screen(server, monkeypatch):
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", server.name)
    monkeypatch.setattr(writing, "PASTED", 1.0)  # the machine may be busy
    return server


@pytest.fixture
def editor(screen, tmp_path):
    editor = Editor(screen, tmp_path / "typed")
    yield editor
    editor.close()


def wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def dictate(writer, *events, partials: bool = False) -> list[str]:
    told = []
    with Dictated(writer, partials, told.append) as view:
        for event in events:
            view.event(event)
            wait_for(view._events.empty)  # of partials that wait, the newest alone would be written
    return told


class Page:
    """A place where words go, without a desktop."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def erase(self, count: int) -> None:
        self.text = self.text[:-count]

    def focus(self) -> None:
        return None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["One.", "Two."], "One. Two."),
        (
            ["Dear Anna", ",", "\n", "how are you?", "\n\nBye", "(", "now", ").", "Yes"],
            "Dear Anna,\nhow are you?\n\nBye (now). Yes",
        ),
    ],
)
def test_utterances_are_joined_as_their_marks_want_it(said, expected):
    page = Page()
    events = [
        event for text in said for event in (Partial(text[:-1], "", 0, 1), Final(text, 0, 1), Endpoint(1, "pause"))
    ]
    assert dictate(page, *events, partials=True) == []
    assert page.text == expected


@pytest.mark.parametrize("how", WRITERS)
def test_letters_of_every_script_arrive(editor, how):
    assert dictate(WRITERS[how](), Final(LETTERS, 0, 1), Endpoint(1, "pause"), Final("Then more.", 1, 2)) == []
    assert editor.lines(1) == [f"{LETTERS} Then more."]


@pytest.mark.parametrize("how", WRITERS)
def test_partials_are_corrected_by_backspace(editor, how):
    events = [
        Partial("I scream für", "", 0, 1),
        Final("Ice cream für alle.", 0, 1),
        Endpoint(1, "pause"),
    ]
    assert dictate(WRITERS[how](), *events, partials=True) == []
    assert editor.lines(1) == ["Ice cream für alle."]


def test_partials_that_come_to_nothing_go_with_the_space_before_them(editor):
    events = Final("Kept.", 0, 1), Partial("hum", "", 1, 2), Endpoint(2, "pause")
    assert dictate(Typing(), *events, partials=True) == []
    assert editor.lines(1) == ["Kept."]


def test_a_cancelled_utterance_goes_and_what_was_final_stays(editor):
    with Dictated(Typing(), True, print) as view:
        view.event(Final("Kept.", 0, 1))
        view.event(Partial("dropped", "", 1, 2))
        wait_for(lambda: view._open)
        view.cancel()
        view.event(Final("Dropped.", 1, 2))
    assert editor.lines(1) == ["Kept."]


def test_nothing_is_erased_in_a_window_that_gets_the_focus_meanwhile(editor, screen, tmp_path):
    other = Editor(screen, tmp_path / "other")
    try:
        editor.focus()
        told = []
        with Dictated(Typing(), True, told.append) as view:
            view.event(Partial("one", "", 0, 1))
            wait_for(lambda: view._open)
            other.focus()
            run_tool("xdotool", "type", "mine ")
            view.event(Final("Two.", 0, 1))
        assert other.lines(1) == ["mine Two."]
        assert editor.lines(1) == ["one"]
        assert len(told) == 1
        assert "another window" in told[0]
    finally:
        other.close()


def test_what_could_be_pasted_before_is_put_back_be_it_text_or_a_picture(editor, screen):
    text = ("xclip", "-selection", "primary")
    picture = ("xclip", "-selection", "clipboard", "-t", "image/png")
    screen.run(*text, text="mine: ä")
    screen.run(*picture, text="a picture")
    assert dictate(Pasting(), Final("Hello.", 0, 1)) == []
    assert screen.run(*text, "-o") == "mine: ä"
    assert screen.run(*picture, "-o") == "a picture"
    assert editor.lines(1) == ["Hello."]


def test_what_is_copied_while_words_are_pasted_stays(editor, screen, monkeypatch):
    held = ("xclip", "-selection", "clipboard")
    screen.run(*held, text="before")
    monkeypatch.setattr(desktop.XKeyboard, "paste", lambda keyboard: screen.run(*held, text="copied"))
    Pasting().write("Hello.")
    assert screen.run(*held, "-o") == "copied"


def test_xsel_does_where_xclip_is_not(editor, screen, monkeypatch):
    if clipboard.find_tool("xsel", "xclip") != "xsel":
        pytest.skip("no xsel here")
    monkeypatch.setattr(clipboard, "find_tool", lambda *names: "xsel")
    screen.run("xsel", "-i", "-b", text="mine: ä")
    dictate(Pasting(), Final(LETTERS, 0, 1))
    assert editor.lines(1) == [LETTERS]
    assert screen.run("xsel", "-o", "-b") == "mine: ä"


def test_a_command_gets_each_final_as_a_line(tmp_path):
    told = dictate(
        Piping(f"cat >> {tmp_path}/lines"), Final("One, ä.", 0, 1), Endpoint(1, "pause"), Final("Two.", 1, 2)
    )
    assert told == []
    assert (tmp_path / "lines").read_text("utf-8") == "One, ä.\nTwo.\n"


def test_a_command_that_fails_is_told_and_the_next_final_comes_all_the_same(tmp_path):
    command = f"cat >> {tmp_path}/lines; exit 3"
    told = dictate(Piping(command), Final("One.", 0, 1), Final("Two.", 1, 2))
    assert told == [f"--command {command}: ended with status 3"] * 2
    assert (tmp_path / "lines").read_text() == "One.\nTwo.\n"


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "no desktop to type into"),
        ({"DISPLAY": ":0"}, "xdotool is missing: install the package xdotool"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "wtype or ydotool is missing: install the package wtype or ydotool"),
    ],
)
def test_what_is_missing_is_said_with_the_package(variables, line, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DesktopError, match=line):
        Pasting()


def program(folder, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_ydotool_does_where_the_compositor_refuses_wtype(monkeypatch, tmp_path):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "wtype", "echo Compositor does not support the virtual keyboard protocol >&2; exit 1")
    program(tmp_path, "ydotool", f'{{ echo "$@"; cat; }} >> {tmp_path}/pressed')
    keyboard = desktop.find_keyboard()
    keyboard.paste()
    keyboard.erase(2)
    keyboard.type("yes\n")
    assert not keyboard.has("ä")
    pressed = (tmp_path / "pressed").read_text().splitlines()
    assert pressed == ["key 42:1 110:1 110:0 42:0", "key 14:1 14:0 14:1 14:0", "type --file -", "yes"]

"""The live display at several widths, without colour, without unicode: what stands on the screen."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from asr.cli.display import LiveDisplay, Screen, clock, meter, render, status_line
from asr.events import Endpoint, Final, Partial

WIDTHS = (20, 40, 120)
SAID = "good morning this is a short recording for a streaming speech recogniser"
STABLE = "good morning this is a short"
SCREEN = Screen("USB microphone", SAID, STABLE, level=0.1, lag=0.24, seconds=3723)


def lines(screen: Screen, width: int, height: int = 20, encoding: str = "utf-8") -> list[str]:
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding), width=width, record=True, force_terminal=True)
    console.print(render(screen, console, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_words_stand_whole_above_the_status_line(width):
    *words, status = lines(SCREEN, width)
    assert " ".join(line.strip() for line in words) == SAID
    assert "1:02:03" in status
    assert all(len(line) <= width for line in [*words, status])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_stable_part_is_plain_and_the_rest_is_dim(width):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    words = render(SCREEN, console, width, 20).renderables[:-1]
    plain, dim = "", ""
    for line in words:
        dimmed = {at for span in line.spans if span.style == "dim" for at in range(span.start, span.end)}
        dim += "".join(c for at, c in enumerate(line.plain) if at in dimmed and c != " ")
        plain += "".join(c for at, c in enumerate(line.plain) if at not in dimmed and c != " ")
    assert plain == STABLE.replace(" ", "")
    assert dim == SAID[len(STABLE) :].replace(" ", "")


def test_of_a_long_utterance_the_newest_lines_are_shown():
    *words, _ = lines(SCREEN, 20, height=2)
    assert [line.strip() for line in words] == ["for a streaming", "speech recogniser"]


@pytest.mark.parametrize("width", range(1, 140))
def test_the_status_line_never_exceeds_the_width(width):
    for name in ("mic", "USB microphone, front left", "内蔵マイク (高品質オーディオ)", ""):
        for unicode in (True, False):
            line = status_line(Screen(name, level=0.5, lag=12.3, seconds=3723, unicode=unicode), width)
            assert cell_len(line) <= width
            assert unicode or not name.isascii() or line.isascii()


def test_a_wide_terminal_shows_everything():
    assert status_line(SCREEN, 120) == "███████░░░  1:02:03  lag 0.2 s  USB microphone"


def test_a_narrow_one_shows_meter_time_and_lag():
    assert status_line(replace(SCREEN, seconds=754), 20) == "███░ 12:34 lag 0.2 s"


def test_the_meter_runs_from_minus_60_to_0_decibels():
    assert [meter(level, 6, False) for level in (0, 0.001, 0.0316, 1, 2)] == [
        "------",
        "------",
        "###---",
        "######",
        "######",
    ]


def test_the_clock_counts_hours():
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "1:00:00"]


def show(encoding: str = "utf-8", **options) -> bytes:
    """What a short session writes to a terminal."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding, errors="replace", write_through=True)
    console = Console(file=out, width=60, height=10, force_terminal=True, legacy_windows=False, **options)
    with LiveDisplay("mic", console) as display:
        display.event(Partial("good mor", "good", 0.0, 0.6))
        display.progress(0.1, 0.0, 1.0)
        display._live.refresh()
        display.tell("mic is gone: waiting for it to come back")
        display.event(Final("Good morning.", 0.0, 1.0))
        display.event(Endpoint(1.0, "pause"))
        display._live.refresh()
    return raw.getvalue()


def test_a_final_takes_the_place_of_the_partial_and_stays():
    text = show().decode()
    assert text.index("\x1b[2m mor") < text.index("mic is gone") < text.index("Good morning.\n")
    assert "mor\x1b" not in text[text.index("Good morning.") :]


def test_without_colour_there_is_none():
    assert "\x1b[33m" in show(color_system="standard", no_color=False).decode()
    assert "\x1b[33m" not in show(color_system="standard", no_color=True).decode()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "koi8-r", "shift-jis"])
def test_any_code_page_will_do(encoding):
    text = show(encoding).decode(encoding)
    assert "Good morning." in text
    assert "?" not in text.replace("\x1b[?", "")

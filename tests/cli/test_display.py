"""The live display at several widths, without colour, without unicode: what stands on the screen."""

import io
import time
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from asr.cli.display import BEHIND, REFRESH, WARNED, LiveDisplay, Screen, clock, doubted, render, status_line
from asr.cli.meter import QUIET_AFTER, TELL_CLIPPED, Meter
from asr.cli.region import Region
from asr.events import Endpoint, Final, Partial, Word
from tests.terminal import Terminal

WIDTHS = (20, 40, 120)
SAID = "good morning this is a short recording for a streaming speech recogniser"
STABLE = "good morning this is a short"
METER = Meter()
METER.update(0.1, 0.3, 0.1)
SCREEN = Screen("USB microphone", "", SAID, STABLE, meter=METER, lag=0.64, seconds=3723)
CONSOLE = Console(file=io.StringIO(), force_terminal=True)


def lines(screen: Screen, width: int, height: int = 20) -> list[str]:
    return [row.plain for row in render(screen, CONSOLE, width, height)]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_words_stand_whole_above_the_status_line(width):
    *words, status = lines(SCREEN, width)
    assert " ".join(line.strip() for line in words) == SAID
    assert "1:02:03" in status
    assert all(len(line) <= width for line in [*words, status])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_stable_part_is_plain_and_the_rest_is_dim(width):
    *words, _ = render(SCREEN, CONSOLE, width, 20)
    plain, dim = "", ""
    for line in words:
        dimmed = {at for span in line.spans if span.style == "dim" for at in range(span.start, span.end)}
        dim += "".join(c for at, c in enumerate(line.plain) if at in dimmed and c != " ")
        plain += "".join(c for at, c in enumerate(line.plain) if at not in dimmed and c != " ")
    assert plain == STABLE.replace(" ", "")
    assert dim == SAID[len(STABLE) :].replace(" ", "")


def test_of_a_long_utterance_the_newest_lines_are_shown():
    *words, _ = lines(SCREEN, 20, height=3)
    assert [line.strip() for line in words] == ["for a streaming", "speech recogniser"]


@pytest.mark.parametrize("width", range(1, 140))
def test_the_status_line_never_exceeds_the_width(width):
    for name in ("mic", "USB microphone, front left", "内蔵マイク (高品質オーディオ)", ""):
        for unicode in (True, False):
            screen = Screen(name, meter=METER, lag=12.3, seconds=3723, unicode=unicode)
            line = status_line(screen, width).plain
            assert cell_len(line) <= width
            assert unicode or not name.isascii() or line.isascii()


def test_a_wide_terminal_shows_everything():
    assert status_line(SCREEN, 120).plain == "███████░░░  1:02:03  lag 0.6 s  USB microphone"


def test_a_narrow_one_shows_meter_time_and_lag():
    assert status_line(replace(SCREEN, seconds=754), 20).plain == "███░ 12:34 lag 0.6 s"


def test_a_lag_that_nobody_notices_is_not_shown():
    assert "lag" not in status_line(replace(SCREEN, lag=0.3), 120).plain


def test_the_clock_counts_hours():
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "1:00:00"]


class Shown:
    """A display, and the terminal that follows what it writes."""

    def __init__(self, encoding: str = "utf-8", width: int = 60, **options) -> None:
        self.raw, self.encoding = io.BytesIO(), encoding
        out = io.TextIOWrapper(self.raw, encoding, errors="replace", write_through=True, newline="")
        self.console = Console(file=out, width=width, height=10, force_terminal=True, legacy_windows=False, **options)
        self.region = Region(self.console)
        self.display = LiveDisplay(self.region)
        self.now = 0.0

    def hear(self, seconds: float, level: float = 0.1, peak: float = 0.3, lag: float = 0.0) -> None:
        end = self.now + seconds
        while self.now < end - 0.01:
            self.now += 0.1
            self.display.progress(level, lag, self.now, peak)
        self.display.event(Endpoint(self.now, "pause"))  # which draws at once

    @property
    def written(self) -> str:
        return self.raw.getvalue().decode(self.encoding)

    @property
    def lines(self) -> list[str]:
        terminal = Terminal(self.console.width, 10)
        terminal.feed(self.written)
        return terminal.text


def test_it_is_loading_then_listening_until_there_are_words():
    shown = Shown()
    shown.display.begin("", "loading")
    assert shown.lines == ["loading"]
    shown.display.begin("USB microphone", "listening to USB microphone: speak")
    time.sleep(REFRESH)
    shown.display.progress(0.1, 0.0, 1.0, 0.3)
    assert shown.lines == ["listening to USB microphone: speak", "███████░░░  0:01  USB microphone"]
    shown.display.event(Partial("good", "", 0.0, 0.6))
    assert shown.lines[0] == "good"
    shown.display.event(Endpoint(1.0, "pause"))
    assert shown.lines == ["███████░░░  0:01  USB microphone"]


def test_clipping_is_told_while_it_lasts():
    shown = Shown()
    shown.hear(0.5, peak=1.0)
    assert "clipping" in shown.lines[-1]
    shown.hear(TELL_CLIPPED)
    assert "clipping" not in shown.lines[-1]


def test_speech_that_is_too_quiet_is_told_from_silence():
    shown = Shown()
    shown.hear(QUIET_AFTER, level=0.001)
    assert "silence" in shown.lines[-1]
    shown.display.event(Partial("good", "", 0.0, 0.6))
    assert "too quiet" in shown.lines[-1]
    shown.hear(0.1)
    assert not {"silence", "too quiet"} & set(shown.lines[-1].split("  "))


@pytest.mark.parametrize("cause", [{"level": 0.0}, {"lag": 2 * BEHIND}])
def test_a_warning_goes_when_its_cause_goes(cause):
    shown = Shown()
    shown.hear(1.0)
    shown.display.warn("something is wrong")
    shown.hear(2 * WARNED, **cause)
    assert "something is wrong" in shown.lines
    shown.hear(0.1)
    assert "something is wrong" not in shown.lines


def test_a_warning_stands_long_enough_to_be_read():
    shown = Shown()
    shown.display.warn("mic is gone: waiting for it to come back")
    shown.display.warn("mic is back")
    shown.hear(WARNED - 0.5)
    assert shown.lines[0] == "mic is back"
    shown.hear(1.0)
    assert shown.lines == ["███████░░░  0:05"]


def show(encoding: str = "utf-8", **options) -> Shown:
    """A short session."""
    shown = Shown(encoding, **options)
    with shown.region:
        shown.display.event(Partial("good mor", "good", 0.0, 0.6))
        shown.display.progress(0.1, 0.0, 1.0, 0.3)
        shown.display.tell("cannot write notes.txt: No space left on device")
        shown.display.event(Final("Good morning.", 0.0, 1.0))
        shown.display.event(Endpoint(1.0, "pause"))
    return shown


def test_a_final_takes_the_place_of_the_partial_and_stays():
    shown = show()
    assert "\x1b[2m mor" in shown.written
    assert shown.lines == ["cannot write notes.txt: No space left on device", "Good morning."]


def test_words_of_little_confidence_stand_out():
    words = [Word(text, 0.0, 1.0, sure) for text, sure in (("the", 0.9), ("he", 0.3), ("heard.", 0.8))]
    text = doubted(Final("the he heard.", 0.0, 1.0, tuple(words)))
    assert text.plain == "the he heard."
    assert [(span.start, span.end) for span in text.spans] == [(4, 6)]


def test_without_colour_there_is_none():
    assert "\x1b[33m" in show(color_system="standard", no_color=False).written
    assert "\x1b[33m" not in show(color_system="standard", no_color=True).written


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "koi8-r", "shift-jis"])
def test_any_code_page_will_do(encoding):
    text = show(encoding).written
    assert "Good morning." in text
    assert "?" not in text.replace("\x1b[?", "")


def test_a_minute_of_speech_is_a_few_hundred_bytes_a_second_and_erases_little():
    """The meter moves ten times a second, the words twice; all that stands there would be 2 kB a second."""
    shown = Shown(width=80)
    words = SAID.split() * 2
    for second in range(60):
        said = " ".join(words[: 2 * (second % 12) + 1])
        shown.display.event(Partial(said, "", 0.0, 0.0))
        for tenth in range(10):
            shown.display._drawn = 0.0  # as if time had passed
            shown.display.progress(0.02 + 0.03 * (tenth % 3), 0.0, second + tenth / 10, 0.3)
    assert len(shown.written) < 60 * 600
    assert shown.written.count("\x1b[K") + shown.written.count("\x1b[J") < 60

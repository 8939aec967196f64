"""The live display: finals settle above, the words that are still coming stand below, a status line under them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from asr.cli.meter import Meter
from asr.events import Event, Final, Partial
from asr.text import printable

METER_CELLS = 10
NARROW = 40  # columns below which meter and gaps are short
NARROW_METER_CELLS = 4
SHORTEST_NAME = 6  # columns; a device name that must be cut shorter is left out
REFRESH = 0.08  # s between two drawings of the meter at least
LAG_SHOWN = 0.5  # s from which on the lag is worth showing
WARNED = 5.0  # s of sound that a warning stands at least, so that it can be read
DOUBTED = 0.5  # confidence below which a word is rather wrong than right, and is shown so
BEHIND = 1.0  # s of lag up to which recognition keeps up


class Rows(Protocol):
    """The rows at the end of a terminal; see `Region`."""

    console: Console
    width: int
    height: int

    def show(self, rows: list[Text]) -> None: ...
    def settle(self, line: Text, rows: list[Text]) -> None: ...


@dataclass(frozen=True)
class Screen:
    """All that the changing part of the display shows.

    Attributes:
        name: where the sound comes from.
        hint: stands in the place of words before there are any.
        text: hypothesis of the open utterance.
        stable: the prefix of `text` that will not change.
        warning: what is wrong with the sound.
        meter: of the sound; none until there is some.
        lag: seconds of sound that wait to be recognised.
        seconds: stream time.
        unicode: whether the terminal can show more than ASCII.
    """

    name: str = ""
    hint: str = ""
    text: str = ""
    stable: str = ""
    warning: str = ""
    meter: Meter | None = None
    lag: float = 0.0
    seconds: float = 0.0
    unicode: bool = True


def render(screen: Screen, console: Console, width: int, height: int) -> list[Text]:
    """The open utterance, the warning and the status line, the newest `height` rows of them, in `width` columns."""
    words = Text.assemble(screen.stable, (screen.text[len(screen.stable) :], "dim"))
    lines = [words or Text(screen.hint, "dim"), Text(screen.warning, "yellow")]
    rows = [row for line in lines if line for row in line.wrap(console, width)]
    for row in rows:
        row.rstrip()
    status = [] if screen.meter is None else [status_line(screen, width)]
    return (rows + status)[-height:]


def doubted(final: Final) -> Text:
    """A final whose words of little confidence stand out."""
    text, at = Text(final.text), 0
    for word in final.words:
        start = final.text.find(word.text, at)
        if start >= 0:
            at = start + len(word.text)
            if word.confidence < DOUBTED:
                text.stylize("yellow", start, at)
    return text


def status_line(screen: Screen, width: int) -> Text:
    """The meter and what it says in words, stream time, lag and device name, as many of them as fit in `width`."""
    cells, gap = (METER_CELLS, "  ") if width >= NARROW else (NARROW_METER_CELLS, " ")
    line = Text(screen.meter.bar(cells, screen.unicode)[:width], "dim")
    parts = [(level_in_words(screen), "yellow"), (clock(screen.seconds), "dim")]
    if screen.lag >= LAG_SHOWN:
        parts.append((f"lag {screen.lag:.1f} s", "dim"))
    for part, style in parts:
        if part and line.cell_len + cell_len(gap + part) <= width:
            line.append(gap + part, style)
    left, more = width - line.cell_len - len(gap), "…" if screen.unicode else "..."
    if cell_len(screen.name) <= left:
        line.append(gap + screen.name, "dim")
    elif left >= SHORTEST_NAME:
        line.append(gap + set_cell_size(screen.name, left - len(more)) + more, "dim")
    return line


def level_in_words(screen: Screen) -> str:
    """What is wrong with the level, if anything is."""
    if screen.meter.clipping:
        return "clipping"
    if screen.meter.quiet:
        return "too quiet" if screen.text else "silence"
    return ""


def clock(seconds: float) -> str:
    """Minutes and seconds, after an hour with hours: 0:42, 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


@dataclass
class LiveDisplay:
    """Shows events and the state of the recording in the last rows of a terminal.

    Args:
        rows: where.
    """

    rows: Rows
    screen: Screen = field(default_factory=Screen)
    _drawn: float = -REFRESH  # time.monotonic() of the last drawing
    _warned: float = 0.0  # stream time at which the warning was given

    def __post_init__(self) -> None:
        self.screen = replace(self.screen, unicode=_shows(self.rows.console, "█░▌…"))

    def begin(self, name: str, hint: str) -> None:
        """Where the sound comes from, and what stands there until there are words."""
        self._change(name=printable(name), hint=printable(hint) or "listening")

    def event(self, event: Event) -> None:
        """A partial becomes the current line, a final settles above it, an endpoint clears it."""
        partial = isinstance(event, Partial)
        changes = {"text": event.text if partial else "", "stable": event.stable if partial else "", "hint": ""}
        if isinstance(event, Final):
            self._settle(doubted(event), **changes)
        else:
            self._change(**changes)

    def progress(self, level: float, lag: float, seconds: float, peak: float) -> None:
        """The state of the recording: root mean square and largest sample of the newest sound, see `Screen`."""
        screen, meter = self.screen, self.screen.meter or Meter()
        meter.update(level, peak, seconds)
        well = level > 0 and lag < BEHIND and seconds - self._warned >= WARNED
        warning = "" if well else screen.warning
        self.screen = replace(screen, meter=meter, lag=lag, seconds=seconds, warning=warning)
        if time.monotonic() - self._drawn >= REFRESH:
            self._change()

    def warn(self, line: str) -> None:
        """A line about what is wrong with the sound; it goes when there is sound that is recognised in time."""
        self._warned = self.screen.seconds
        self._change(warning=printable(line))

    def tell(self, line: str) -> None:
        """A line about what has happened once and for all, above the current one."""
        self._settle(Text(printable(line), "yellow"))

    def _change(self, **changes: str) -> None:
        self.screen = replace(self.screen, **changes)
        self._drawn = time.monotonic()
        self.rows.show(self._rendered())

    def _settle(self, line: Text, **changes: str) -> None:
        self.screen = replace(self.screen, **changes)
        self.rows.settle(line, self._rendered())

    def _rendered(self) -> list[Text]:
        return render(self.screen, self.rows.console, self.rows.width, self.rows.height)


def _shows(console: Console, characters: str) -> bool:
    try:
        characters.encode(console.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

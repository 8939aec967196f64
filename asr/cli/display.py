"""The live display: finals settle above, the words that are still coming stand below, a status line under them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from asr.events import Event, Final, Partial

QUIETEST = -60.0  # dB of full scale at the empty end of the level meter
METER_CELLS = 10
NARROW = 40  # columns below which meter and gaps are short
NARROW_METER_CELLS = 4
SHORTEST_NAME = 6  # columns; a device name that must be cut shorter is left out
REFRESHES = 8  # a second


@dataclass(frozen=True)
class Screen:
    """All that the changing part of the display shows.

    Attributes:
        name: where the sound comes from.
        text: hypothesis of the open utterance.
        stable: the prefix of `text` that will not change.
        level: root mean square of the sound, 0 to 1.
        lag: seconds of sound that wait to be recognised.
        seconds: stream time.
        unicode: whether the terminal can show more than ASCII.
    """

    name: str = ""
    text: str = ""
    stable: str = ""
    level: float = 0.0
    lag: float = 0.0
    seconds: float = 0.0
    unicode: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield render(self, console, options.max_width, max(1, console.height - 2))


def render(screen: Screen, console: Console, width: int, height: int) -> Group:
    """The open utterance, the newest `height` lines of it, and the status line, in `width` columns."""
    status = Text(status_line(screen, width), "dim", no_wrap=True, overflow="crop")
    if not screen.text:
        return Group(status)
    words = Text.assemble(screen.stable, (screen.text[len(screen.stable) :], "dim"))
    return Group(*words.wrap(console, width)[-height:], status)


def status_line(screen: Screen, width: int) -> str:
    """Level meter, stream time, lag and device name, as many of them as fit into `width` columns."""
    cells, gap = (METER_CELLS, "  ") if width >= NARROW else (NARROW_METER_CELLS, " ")
    line = meter(screen.level, cells, screen.unicode)
    for part in (clock(screen.seconds), f"lag {screen.lag:.1f} s"):
        if cell_len(line + gap + part) <= width:
            line += gap + part
    left = width - cell_len(line + gap)
    if cell_len(screen.name) <= left:
        return line + gap + screen.name
    more = "…" if screen.unicode else "..."
    if left < SHORTEST_NAME:
        return line[:width]
    return line + gap + set_cell_size(screen.name, left - len(more)) + more


def meter(level: float, cells: int, unicode: bool) -> str:
    """A bar for the root mean square of the sound, on a scale of decibels."""
    decibels = 20 * math.log10(max(level, 1e-9))
    full = round(cells * min(1.0, max(0.0, 1 - decibels / QUIETEST)))
    on, off = "█░" if unicode else "#-"
    return on * full + off * (cells - full)


def clock(seconds: float) -> str:
    """Minutes and seconds, after an hour with hours: 0:42, 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class LiveDisplay:
    """Shows events and the state of the recording on a terminal; a context manager.

    Args:
        name: where the sound comes from.
        console: the terminal.
    """

    def __init__(self, name: str, console: Console) -> None:
        self.screen = Screen(name, unicode=_shows(console, "█░…"))
        self._console = console
        self._live = Live(
            self,
            console=console,
            refresh_per_second=REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveDisplay:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.screen = replace(self.screen, text="", stable="")
        self._live.__exit__(None, None, None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.screen

    def event(self, event: Event) -> None:
        """A partial becomes the current line, a final settles above it, an endpoint clears it."""
        partial = isinstance(event, Partial)
        self.screen = replace(self.screen, text=event.text if partial else "", stable=event.stable if partial else "")
        if isinstance(event, Final):
            self._console.print(Text(event.text))

    def progress(self, level: float, lag: float, seconds: float) -> None:
        """The state of the recording, shown with the next refresh."""
        self.screen = replace(self.screen, level=level, lag=lag, seconds=seconds)

    def tell(self, line: str) -> None:
        """A line about a trouble, above the current one."""
        self._console.print(Text(line, "yellow"))


def _shows(console: Console, characters: str) -> bool:
    try:
        characters.encode(console.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

"""Draws what `asr live` looks like at work: the repository's sample is played through it and stopped while it listens.

    python scripts/picture_of_live.py                      # writes scripts/live.svg, the picture in README.md
    python scripts/picture_of_live.py OUT.svg --recording talk.mp3 --second 42

The words, their state and the level are those of a real run, shown by the display of `asr live` itself. The recording
is played as fast as it goes, so that the picture does not depend on the machine; a lag is not measured then.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from asr import EndpointRules, Recognizer, StreamOptions
from asr.audio.playback import Playback
from asr.cli.display import LiveDisplay
from asr.errors import AsrError

PICTURE = Path("scripts/live.svg")
SAMPLE = "tests/data/sample.flac"
OPTIONS = StreamOptions(partials="decoder", endpoint=EndpointRules(pause=0.8), vad=True)  # what `asr live` sets
COLUMNS = 80


class Page:
    """Stands in for the terminal's rows: what settles goes to a console, the rest is kept."""

    def __init__(self, console: Console) -> None:
        self.console, self.width, self.height, self.rows = console, console.width, console.height, []

    def show(self, rows: list[Text]) -> None:
        self.rows = rows

    def settle(self, line: Text, rows: list[Text]) -> None:
        self.console.print(line)
        self.show(rows)


def watch(recording: str, second: float, console: Console) -> None:
    """Prints what stands on the terminal of `asr live --input recording` when `second` seconds have been heard."""
    stream = Recognizer.load().stream(OPTIONS)
    with Playback(recording, realtime=False) as source:
        page = Page(console)
        display = LiveDisplay(page)
        display.begin(source.name, "")
        for block in source:
            for event in stream.accept(block, source.sample_rate):
                display.event(event)
            display.progress(source.level, source.statistics.lag, stream.seconds, float(np.abs(block).max()))
            if stream.seconds >= second:
                break
    console.print(Text("\n").join(page.rows))


def without_web_fonts(svg: str) -> str:
    """Rich's picture names a font on a web server, which pages do not load for an image: the reader's own does."""
    return re.sub(r"\s*@font-face \{[^}]*\}", "", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=PICTURE, metavar="OUT.svg")
    parser.add_argument("--recording", default=SAMPLE)
    parser.add_argument("--second", type=float, default=15.0, help="of the recording, at which it is drawn")
    given = parser.parse_args()
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, highlight=False)
    console.print(Text(f"$ asr live --input {given.recording} --fast\n", "bold"))
    try:
        watch(given.recording, given.second, console)
    except AsrError as error:
        print(f"picture_of_live: {error}", file=sys.stderr)
        return 2
    svg = console.export_svg(title="asr live", theme=MONOKAI, unique_id="live")
    given.picture.write_text(without_web_fonts(svg), "utf-8")
    print(f"{given.picture}: {given.recording} at {given.second} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

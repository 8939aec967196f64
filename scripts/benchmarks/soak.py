"""Hours of stream: memory stays flat, chunks take no longer, and what is heard does not depend on what came before.

    python scripts/benchmarks/soak.py --hours 2 --loop tests/data/sample.flac

feeds a recording (default: the repository's sample) over and over again, with partials and finals by the attention
decoder. From the third pass on each must be written down like the third, times must go on increasing, and memory and
time must not grow. Exit status 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import difflib
import math
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from asr.audio.files import read_audio
from asr.events import Endpoint, Final, Partial
from asr.recognition import revision
from asr.recognition.recognizer import Recognizer, StreamOptions

SAMPLE = Path(__file__).parents[2] / "tests" / "data" / "sample.flac"
RATE = 16000
POSITION = 384  # samples
MOST_GROWTH_MB = 20.0  # of resident memory after the first minute
SETTLED = 2  # passes of a loop after which memory and texts are compared
PAUSE = 2.0  # s of silence at least after each pass of a loop
MOST_SLOWDOWN = 1.25  # processor time per chunk, last tenth of the stream over the first


class Loop:
    """What comes out of a recording that is fed over and over again.

    Attributes:
        texts: the finals of each pass.
        faults: what was wrong with times and partials, a line each.
    """

    def __init__(self, recognizer: Recognizer, options: StreamOptions, speech: np.ndarray) -> None:
        self.stream = recognizer.stream(options)
        chunk = recognizer.model.positions(options.chunk_ms)
        self.chunk = chunk * POSITION
        # Each pass is cut alike: in whole chunks, whole chunks of revision and whole steps of the gate.
        period = math.lcm(chunk, revision.CHUNK, recognizer.gate.positions) * POSITION
        periods = -(-(len(speech) + round(PAUSE * RATE)) // period)
        self.sound = np.pad(speech, (0, periods * period - len(speech)))
        self.texts: list[list[str]] = []
        self.faults: list[str] = []
        self.partials = 0
        self._end, self._stable = 0.0, ""

    def once(self) -> None:
        """Feeds one pass."""
        texts = []
        for start in range(0, len(self.sound), self.chunk):
            for event in self.stream.accept(self.sound[start : start + self.chunk], RATE):
                if isinstance(event, Partial):
                    self.partials += 1
                    if not event.stable.startswith(self._stable):
                        self.faults.append(f"{self._stable!r} was stable and became {event.stable!r}")
                    self._stable = event.stable
                elif isinstance(event, Final):
                    texts.append(event.text)
                    self._check_times(event)
                elif isinstance(event, Endpoint):
                    self._stable = ""
        self.texts.append(texts)

    def _check_times(self, final: Final) -> None:
        times = [final.start, *(t for word in final.words for t in (word.start, word.end)), final.end]
        if final.start < self._end or times != sorted(times) or final.end <= final.start:
            self.faults.append(f"times do not increase: {self._end} and then {times}")
        self._end = final.end


def run_loop(recognizer: Recognizer, options: StreamOptions, hours: float, speech: np.ndarray) -> bool:
    """Whether all promises were kept over as many passes as fill the hours."""
    loop, process = Loop(recognizer, options, speech), psutil.Process()
    seconds = len(loop.sound) / RATE
    passes, every = max(SETTLED + 2, round(hours * 3600 / seconds)), max(1, round(600 / seconds))
    memory, work = [], []
    for number in range(1, passes + 1):
        cpu = time.process_time()
        loop.once()
        work.append((time.process_time() - cpu) / seconds)
        memory.append(process.memory_info().rss / 1e6)
        if number == 1 or number % every == 0:
            print(
                f"{number * seconds / 60:5.0f} min  pass {number}  memory {memory[-1]:7.1f} MB  load {work[-1]:.3f}  "
                f"{loop.partials} partials  {sum(map(len, loop.texts))} finals  {len(loop.faults)} faults",
                flush=True,
            )
    settled = loop.texts[SETTLED:]
    different = [number for number, texts in enumerate(settled, SETTLED + 1) if texts != settled[0]]
    growth = max(memory[SETTLED:]) - memory[SETTLED - 1]
    tenth = max(1, passes // 10)
    slowdown = float(np.median(work[-tenth:]) / np.median(work[:tenth]))
    hours = passes * seconds / 3600
    print(f"{passes} passes, {hours:.2f} h; {len(settled[0])} utterances in each, {len(different)} different")
    for number in different[:10]:
        print(
            *difflib.unified_diff(
                settled[0], loop.texts[number - 1], f"pass {SETTLED + 1}", f"pass {number}", n=0, lineterm=""
            ),
            sep="\n",
        )
    print(f"memory grew by {growth:.1f} MB after pass {SETTLED} (at most {MOST_GROWTH_MB:.0f})")
    print(f"processor time, last tenth over first: {slowdown:.2f} (at most {MOST_SLOWDOWN})")
    for fault in loop.faults[:10]:
        print(fault)
    kept = growth <= MOST_GROWTH_MB and slowdown <= MOST_SLOWDOWN
    return kept and bool(settled[0]) and not different and not loop.faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--chunk-ms", type=float, default=640)
    parser.add_argument("--look-ahead-ms", type=float, default=0)
    parser.add_argument("--loop", type=Path, metavar="FILE", default=SAMPLE, help="the recording")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    recognizer = Recognizer.load(threads=args.threads)
    options = StreamOptions(args.chunk_ms, args.look_ahead_ms, partials="decoder", vad=True)
    return 0 if run_loop(recognizer, options, args.hours, read_audio(args.loop)) else 1


if __name__ == "__main__":
    sys.exit(main())

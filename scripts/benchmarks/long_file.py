"""Hours in one file: peak memory, speed, and whether the times of its last words are right.

    python scripts/benchmarks/long_file.py --hours 3 -- --second-pass off --chunk-ms 2000

makes a FLAC file of the repository's sample over and over (each in a slot of 20 s, at changing levels, in noise),
transcribes it with `asr transcribe` and the options after --, and compares the words of the last slot with the sample's
own, decoded alone with the same options. Exit status 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import psutil
import soundfile

SAMPLE = Path(__file__).parents[2] / "tests" / "data" / "sample.flac"
SLOT = 20  # s
MOST_MEMORY, MOST_OFF = 1200.0, 0.2  # MB; s


def make(path: Path, hours: float) -> tuple[int, float]:
    """Writes the file; the number of slots and seconds."""
    speech, rate = soundfile.read(SAMPLE, dtype="float32")
    slots = max(2, round(hours * 3600 / SLOT))
    with soundfile.SoundFile(path, "w", rate, 1, "PCM_16") as file:
        for number in range(slots):
            g = np.random.default_rng(number)
            out = g.normal(0, 3e-4, SLOT * rate).astype(np.float32)
            level = 1.0 if number == slots - 1 else 10 ** g.uniform(-1, 0.2)
            out[: len(speech)] += np.float32(level) * speech
            file.write(out.clip(-1, 1))
    return slots, slots * SLOT


def transcribe(path: Path, options: list[str]) -> tuple[list[dict], float, float]:
    """Words, peak memory (MB, sampled) and seconds of `asr transcribe`."""
    out, begun, peak = path.with_suffix(".json"), time.monotonic(), 0
    command = [sys.executable, "-m", "asr", "transcribe", str(path), "-f", "json", "-o", str(out), *options]
    with subprocess.Popen(command) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(peak, watched.memory_info().rss)
            except psutil.Error:
                break
            time.sleep(0.2)
    (result,) = json.loads(out.read_text("utf-8"))
    words = [word for utterance in result["utterances"] for word in utterance["words"]]
    return words, peak / 1e6, time.monotonic() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("options", nargs="*", help="of asr transcribe, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder, "slot.flac")
        make(Path(folder, "two.flac"), 2 * SLOT / 3600)
        samples, rate = soundfile.read(Path(folder, "two.flac"))
        soundfile.write(alone, samples[-SLOT * rate :], rate)
        expected, memory_alone, _ = transcribe(alone, args.options)
        _, seconds = make(Path(folder, "long.flac"), args.hours)
        words, memory, took = transcribe(Path(folder, "long.flac"), args.options)
    last = [word for word in words if word["start"] > seconds - SLOT - 0.1]
    matcher = SequenceMatcher(None, [w["text"] for w in expected], [w["text"] for w in last], autojunk=False)
    pairs = [(expected[a + i], last[b + i]) for a, b, size in matcher.get_matching_blocks() for i in range(size)]
    off = [abs(two[edge] - (seconds - SLOT) - one[edge]) for one, two in pairs for edge in ("start", "end")]
    print(f"{seconds / 3600:.2f} h in {took:.0f} s: {seconds / took:.1f} x real time, {len(words)} words")
    print(f"peak memory {memory:.0f} MB; of {SLOT} s alone {memory_alone:.0f} MB (at most {MOST_MEMORY:.0f})")
    print(f"{len(pairs)} of {len(expected)} words of the last slot matched; times off by at most {max(off):.3f} s")
    good = memory < MOST_MEMORY and len(pairs) > len(expected) / 2 and max(off) <= MOST_OFF
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

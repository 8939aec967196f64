#!/usr/bin/env python3
"""Makes a corpus out of a text, each line spoken by espeak-ng or flite: WAV and text files, and manifest.jsonl."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from asr.errors import AsrError
from asr.training.corpus import Corpus, Entry, measure, write

ESPEAK_VOICES = ("en-us", "en-gb", "en-us+m3", "en-gb+f2", "en-us+f4", "en-gb+m7", "en-gb-scotland")
FLITE_VOICES = ("kal16", "rms", "slt", "awb")

Speaker = Callable[[str, random.Random], tuple[bytes, str]]  # text, draws -> WAV file, who speaks


def espeak(text: str, draw: random.Random) -> tuple[bytes, str]:
    """A line by espeak-ng: voice, 130 to 200 words a minute and pitch (0 to 99) are drawn."""
    voice, speed, pitch = draw.choice(ESPEAK_VOICES), draw.randint(130, 200), draw.randint(30, 70)
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdin", "--stdout"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout, f"espeak-ng {voice}"


def flite(text: str, draw: random.Random) -> tuple[bytes, str]:
    """A line by flite: voice, stretch of the durations and mean pitch (hertz) are drawn."""
    voice, stretch, pitch = draw.choice(FLITE_VOICES), draw.uniform(0.85, 1.2), draw.randint(90, 180)
    with tempfile.TemporaryDirectory() as folder:
        lines, sound = Path(folder, "line.txt"), Path(folder, "line.wav")
        lines.write_text(text, "utf-8")
        settings = [f"duration_stretch={stretch:.2f}", f"int_f0_target_mean={pitch}"]
        options = [part for setting in settings for part in ("--setf", setting)]
        command = ["flite", "-voice", voice, *options, "-f", str(lines), "-o", str(sound)]
        subprocess.run(command, capture_output=True, check=True)
        return sound.read_bytes(), f"flite {voice}"


def make(lines: list[str], folder: Path, speak: Speaker, seed: int) -> Corpus:
    """Writes a WAV file and a text file for each line."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = Corpus("manifest")
    for number, text in enumerate(lines, start=1):
        sound, speaker = speak(text, random.Random(f"{seed} {number}"))
        audio = folder / f"{number:05d}.wav"
        audio.write_bytes(sound)
        audio.with_suffix(".txt").write_text(text + "\n", "utf-8")
        corpus.entries.append(Entry(audio, text, {"speaker": speaker}))
    return corpus


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, metavar="TEXTFILE", help="one utterance a line")
    parser.add_argument("folder", type=Path, metavar="OUTDIR", help="where WAV files and manifest.jsonl go")
    parser.add_argument("--engine", choices=("espeak-ng", "flite"), help="default: whichever is installed")
    parser.add_argument("--seed", type=int, default=1, help="of voices, speeds and pitches")
    options = parser.parse_args()
    engines = {"espeak-ng": espeak, "flite": flite}
    engine = options.engine or next((name for name in engines if shutil.which(name)), None)
    try:
        if engine is None or not shutil.which(engine):
            raise OSError(
                f"{engine or 'neither espeak-ng nor flite'} is {'not ' if engine else ''}installed: get it with "
                f"apt install {engine or 'espeak-ng'}"
            )
        lines = [line.strip() for line in options.text.read_text("utf-8").splitlines() if line.strip()]
        if not lines:
            raise OSError(f"{options.text}: has no lines")
        corpus = make(lines, options.folder, engines[engine], options.seed)
        measure(corpus)
        print(write(corpus, options.folder))
    except (AsrError, OSError, UnicodeDecodeError, subprocess.CalledProcessError) as error:
        reason = f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else error
        print(f"make_speech: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the noises that train_gate.py has held out as sound files: nothing in them should become words.

python scripts/recipes/held_out_noise.py CORPORA noises
asr transcribe noises --vad -d texts         # names each file in which no words were heard
"""

from __future__ import annotations

import argparse
from pathlib import Path

import soundfile

from asr.training.sounds import RATE, load_noises


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="a folder with noise/train.jsonl")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    _, noises = load_noises(arguments.corpora)
    for number, noise in enumerate(noises):
        name = noise.text.partition(" - ")[2] or noise.text
        soundfile.write(arguments.out / f"{number:03} {name}.flac", noise.samples, RATE)
    print(f"{len(noises)} files, {sum(len(n.samples) for n in noises) / RATE / 60:.1f} minutes")


if __name__ == "__main__":
    main()

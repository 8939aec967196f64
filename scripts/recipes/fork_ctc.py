#!/usr/bin/env python3
"""Lets the CTC branch of a model leave the memory's blocks early, with copies of those that it passed before.

    python scripts/recipes/fork_ctc.py en runs/forked --after 4

The model in `runs/forked` writes what `en` writes. Trained from there (`train_ctc.py`), the branch learns in
blocks that the attention decoder does not read. Each copied block is one more to compute in every chunk.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from asr.errors import AsrError
from asr.nn.speech_model import DECODER, SpeechModel, model_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a built-in model's name, or a folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--after", type=int, required=True, metavar="BLOCK", help="last block that both share")
    args = parser.parse_args()
    try:
        model = SpeechModel.load(args.model)
        model.encoder = model.encoder.forked(args.after)
    except (AsrError, ValueError) as error:
        raise SystemExit(f"fork_ctc: {error}") from error
    model.config = replace(model.config, encoder=model.encoder.config)
    decoder = model_folder(args.model) / DECODER
    model.save(args.out, half=True, decoder=decoder if decoder.exists() else None)


if __name__ == "__main__":
    main()

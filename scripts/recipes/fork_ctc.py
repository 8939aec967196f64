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
from asr.nn.encoder import StreamingEncoder
from asr.nn.speech_model import DECODER, SpeechModel, model_folder


def forked(encoder: StreamingEncoder, after: int) -> StreamingEncoder:
    """The same encoder with a CTC branch that leaves the memory's blocks after block `after` already: it begins with
    copies of the blocks that it passed before, and gives what it gave.

    Raises:
        ValueError: the branch does not pass that block.
    """
    c = encoder.config
    if not 0 <= after <= c.fork:
        raise ValueError(f"the CTC branch leaves after block {c.fork}: it can leave earlier, not after {after}")
    other = StreamingEncoder(replace(c, ctc_after=after, ctc_layers=c.ctc_layers + c.fork - after))
    branch = [*encoder.blocks[after : c.fork], *encoder.blocks[c.layers :]]
    weights = {
        f"blocks.{c.layers + at}.{name}": tensor
        for at, block in enumerate(branch)
        for name, tensor in block.state_dict().items()
    }
    other.load_state_dict(encoder.state_dict() | weights)
    return other.to(encoder.ctc.weight)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a built-in model's name, or a folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--after", type=int, required=True, metavar="BLOCK", help="last block that both share")
    args = parser.parse_args()
    try:
        model = SpeechModel.load(args.model)
        model.encoder = forked(model.encoder, args.after)
    except (AsrError, ValueError) as error:
        raise SystemExit(f"fork_ctc: {error}") from error
    model.config = replace(model.config, encoder=model.encoder.config)
    decoder = model_folder(args.model) / DECODER
    model.save(args.out, half=True, decoder=decoder if decoder.exists() else None)


if __name__ == "__main__":
    main()

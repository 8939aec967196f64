"""Averages the encoders of two models of one line of training, which often reads better than either.

    python scripts/recipes/average_models.py runs/further/model en runs/averaged --share 0.6

writes a model of 0.6 of the first one's weights and 0.4 of the second's (Wortsman et al. 2022, "Robust fine-tuning of
zero-shot models"). Tokenizers and attention decoder are the first one's.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from asr.errors import AsrError
from asr.nn.speech_model import DECODER, SpeechModel, model_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="a built-in model's name, or a folder")
    parser.add_argument("second")
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the first one")
    parser.add_argument("--about", help="what the model says of itself; default: what the first one says")
    args = parser.parse_args()
    try:
        first, second = SpeechModel.load(args.first), SpeechModel.load(args.second)
    except AsrError as error:
        raise SystemExit(f"average_models: {error}") from error
    if first.config.encoder != second.config.encoder:
        raise SystemExit("average_models: these encoders are not of the same sizes")
    ours, theirs = first.encoder.state_dict(), second.encoder.state_dict()
    first.encoder.load_state_dict(
        {name: args.share * ours[name].float() + (1 - args.share) * theirs[name].float() for name in ours}
    )
    if args.about is not None:
        first.config = replace(first.config, about=args.about)
    first.save(args.out, half=True, decoder=None if first.decoder is None else model_folder(args.first) / DECODER)


if __name__ == "__main__":
    main()

"""Averages two models of one line of training, which often read better than either.

    python scripts/recipes/average_models.py runs/further/model en runs/averaged --share 0.6

writes a model of 0.6 of the first one's weights and 0.4 of the second's (Wortsman et al. 2022, "Robust fine-tuning of
zero-shot models"). Tokenizers are the first one's, and so is an attention decoder that has not been trained.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from asr.errors import AsrError
from asr.nn.speech_model import DECODER, SpeechModel, model_folder


def average(ours: nn.Module, theirs: nn.Module, share: float) -> bool:
    """Gives the first module weights between both; whether they differed."""
    one, other = ours.state_dict(), theirs.state_dict()
    if all(torch.equal(one[name], other[name]) for name in one):
        return False
    ours.load_state_dict({name: share * one[name] + (1 - share) * other[name] for name in one})
    return True


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
    average(first.encoder, second.encoder, args.share)
    kept = None if first.decoder is None else model_folder(args.first) / DECODER
    if first.config.decoder is not None and first.config.decoder == second.config.decoder:
        learnt = average(first.decoder, second.decoder, args.share)
        kept = None if learnt else kept
    if args.about is not None:
        first.config = replace(first.config, about=args.about)
    first.save(args.out, half=True, int8_decoder=True, decoder=kept)


if __name__ == "__main__":
    main()

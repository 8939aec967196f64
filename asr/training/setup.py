"""What a run starts from: device, tokenizer, model and data, made from the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from asr.device import usable_device
from asr.encoder import EncoderConfig
from asr.errors import ConfigError, ManifestError
from asr.features import FeatureConfig
from asr.manifest import Manifest
from asr.model import ModelConfig, SpeechModel
from asr.tokenizer import CtcTokenizer
from asr.training.config import DataConfig, TokenizerConfig, TrainConfig
from asr.training.selection import target_text


def choose_device(name: str) -> torch.device:
    """`auto`: a GPU where there is one; AsrError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return usable_device(name)


def open_manifests(paths: Sequence[str]) -> list[Manifest]:
    """Opens manifests; those without a text are left to the selection, which counts them.

    Raises:
        ManifestError: one cannot be read.
    """
    return [Manifest(path, require_text=False) for path in paths]


def prepare_tokenizer(
    config: TokenizerConfig,
    manifests: Iterable[Manifest],
    data: DataConfig,
    kept: Path,
    started: SpeechModel | None = None,
) -> CtcTokenizer:
    """The tokenizer of a run: the one that it has already (`kept`), that of the model it started from, the one that is
    named, or a new one.

    Raises:
        ConfigError: the texts have more different characters than `tokenizer.pieces`.
        ManifestError: there are no texts to train one on.
        ModelError: the named one cannot be read.
    """
    if kept.exists():
        return CtcTokenizer.load(kept)
    if started is not None:
        tokenizer = started.tokenizer
    elif config.model is not None:
        tokenizer = CtcTokenizer.load(Path(config.model))
    else:
        texts = [text for m in manifests for u in m if (text := target_text(u.text, data))]
        if not texts:
            raise ManifestError("data.train: no utterance has a text (see data.text) to make a tokenizer of")
        characters = set("".join(texts)) - {" "}
        if len(characters) + 2 > config.pieces:
            raise ConfigError(
                f"tokenizer.pieces: {config.pieces} must be at least {len(characters) + 2}: "
                f"the texts have {len(characters)} different characters"
            )
        try:
            tokenizer = CtcTokenizer.train(texts, config.pieces)
        except RuntimeError as error:
            raise ConfigError(f"tokenizer.pieces: SentencePiece cannot make {config.pieces} of the texts") from error
    partial = kept.with_suffix(".partial")
    partial.write_bytes(tokenizer.model)
    partial.replace(kept)
    return tokenizer


def start_model(config: TrainConfig) -> SpeechModel | None:
    """The model that a run goes on from, with a frozen attention decoder; None = it begins anew.

    Raises:
        ConfigError: the configuration names other sizes than the model's.
        ModelError: there is no such model.
    """
    if config.start is None:
        return None
    model = SpeechModel.load(config.start)
    sizes = replace(config.model, vocabulary=model.config.encoder.vocabulary, dropout=model.config.encoder.dropout)
    if sizes != model.config.encoder and config.model != EncoderConfig():
        raise ConfigError(f"model: has other sizes than {config.start}, from which the run starts: leave them out")
    model.encoder.requires_grad_(True)
    if config.optimiser.frozen_blocks:
        model.encoder.stem.requires_grad_(False)
        model.encoder.blocks[: config.optimiser.frozen_blocks].requires_grad_(False)
    return model


def build_model(config: TrainConfig, tokenizer: CtcTokenizer) -> SpeechModel:
    """A new model whose weights are a function of the seed."""
    torch.manual_seed(config.seed)
    encoder = replace(config.model, vocabulary=len(tokenizer))
    model = SpeechModel(ModelConfig(FeatureConfig(mels=encoder.mels), encoder), tokenizer)
    model.features.design()
    return model

"""What a run starts from: device, tokenizer, model and data, made from the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from asr.errors import ConfigError, ManifestError
from asr.files import write_whole
from asr.manifest import Manifest, Utterance
from asr.nn.decoder import AttentionDecoder, DecoderConfig
from asr.nn.device import usable_device
from asr.nn.encoder import EncoderConfig
from asr.nn.features import FeatureConfig
from asr.nn.speech_model import ModelConfig, SpeechModel
from asr.search.rules import longest_text
from asr.tokenizer import CtcTokenizer, PieceTable
from asr.training.config import DataConfig, TokenizerConfig, TrainConfig
from asr.training.selection import Selection, target_text
from asr.training.transcripts import as_text


def choose_device(name: str) -> torch.device:
    """`auto`: a GPU where there is one, under `torchrun` one for each process; AsrError for one that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
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
    write_whole(kept, tokenizer.model)
    return tokenizer


def tokenizer_notes(config: TrainConfig, tokenizer: CtcTokenizer) -> list[str]:
    """A line where a new tokenizer has fewer pieces than were asked for."""
    if config.start is not None or config.tokenizer.model is not None or len(tokenizer) > config.tokenizer.pieces:
        return []
    return [f"tokenizer.pieces: {config.tokenizer.pieces} were asked for, the texts give {len(tokenizer) - 1}"]


def start_model(config: TrainConfig) -> SpeechModel | None:
    """The model that a run goes on from, its attention decoder frozen or not; None = it begins anew.

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
    if model.decoder is not None and config.decoder.layers:
        raise ConfigError(f"decoder.layers: {config.start}, from which the run starts, has a decoder: leave it out")
    if model.decoder is None and config.losses.decoder and not config.decoder.layers:
        raise ConfigError(f"losses.decoder: {config.start} has no attention decoder: set decoder.layers")
    if model.decoder is not None and model.decoder_pieces.pieces == (own := CtcPieces(model.tokenizer)).pieces:
        model.decoder_pieces = own
    model.encoder.requires_grad_(True)
    if model.decoder is not None and config.optimiser.decoder_rate:
        model.decoder.requires_grad_(True)
    elif model.decoder is not None and config.optimiser.cross_rate:
        for block in model.decoder.blocks:
            block.norm_cross.requires_grad_(True)
            block.cross.requires_grad_(True)
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


class CtcPieces(PieceTable):
    """The pieces of a new attention decoder: CTC's, and all bytes for what these cannot spell.

    Texts are cut as for CTC: merging pair by pair does not reach all pieces of a unigram model, and gives 1.7 times as
    many of them.
    """

    def __init__(self, tokenizer: CtcTokenizer) -> None:
        special = ["<unk>", "<s>", "</s>"]
        pieces = [piece for piece in tokenizer.pieces() if piece not in special]
        super().__init__([*special, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces])
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        return [
            i
            for piece in self._tokenizer.split(text)
            for part in ([piece] if piece in ids else piece)
            for i in ([ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()])
        ]


def hurried_share(utterances: Sequence[Utterance], table: PieceTable) -> float:
    """The share of utterances that have more pieces a second than an attention decoder is let write."""
    late = [len(as_text(u, table)) > longest_text(u.duration) for u in utterances]
    return sum(late) / max(1, len(late))


def decoder_notes(selection: Selection, table: PieceTable) -> list[str]:
    """A line where some texts, of a thousand, have more pieces than a new decoder may write in their time."""
    share = hurried_share(selection.utterances(range(0, len(selection), max(1, len(selection) // 1000))), table)
    if not share:
        return []
    return [
        f"{share:.0%} of the texts have more pieces than the decoder may write in their time: raise tokenizer.pieces"
    ]


def add_decoder(model: SpeechModel, config: TrainConfig) -> None:
    """Gives a model an attention decoder with random weights, a function of the seed."""
    torch.manual_seed(config.seed)
    c, encoder, table = config.decoder, model.config.encoder, CtcPieces(model.tokenizer)
    if encoder.d_model % c.heads:
        raise ConfigError(f"decoder.heads: the model's width, {encoder.d_model}, must be a multiple of it, {c.heads}")
    sizes = DecoderConfig(
        d_model=encoder.d_model,
        heads=c.heads,
        inner=c.inner,
        layers=c.layers,
        vocabulary=len(table),
        rotary_dim=min(encoder.rotary_dim, encoder.d_model // c.heads // 2 * 2),
        start=table.pieces.index("<s>"),
        end=table.pieces.index("</s>"),
        dropout=c.dropout,
    )
    model.decoder, model.decoder_pieces = AttentionDecoder(sizes), table
    model.config = replace(model.config, decoder=sizes)

"""Small random models and the cuts that streaming tests share."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from asr.nn.decoder import AttentionDecoder, DecoderConfig
from asr.nn.encoder import EncoderConfig, StreamingEncoder
from asr.nn.speech_model import ModelConfig, SpeechModel
from asr.nn.vit import ViTConfig
from asr.tokenizer import CtcTokenizer, PieceTable

ENCODER = EncoderConfig(
    mels=80, d_model=32, heads=4, inner=48, layers=2, ctc_layers=1, vocabulary=17, left_context=12, rotary_dim=4
)
DECODER = DecoderConfig(d_model=32, heads=4, inner=48, layers=2, vocabulary=40, rotary_dim=4)
GATE = ViTConfig((8, 24), (4, 6), 1, d_model=16, heads=2, inner=24, layers=2, classes=6)
TABLE = PieceTable(["<unk>", "<s>", "</s>", *(f"▁{a}{b}" for a in "abcdef" for b in "ghijk"), *"lmnopqr"])


def randomise(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Weights large enough that every part of the module matters."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            fan_in = p[0].numel() if p.dim() > 1 else 1
            p.copy_(
                torch.randn(p.shape, generator=g) * (1.2 / fan_in**0.5 if p.dim() > 1 else 0.5) + (p.dim() == 1) * 0.5
            )
    return module.eval().requires_grad_(False)


def small_encoder(seed: int = 0, **sizes: int) -> StreamingEncoder:
    return randomise(StreamingEncoder(replace(ENCODER, **sizes)), seed)


def small_decoder(seed: int = 0) -> AttentionDecoder:
    return randomise(AttentionDecoder(DECODER), seed)


def small_model(seed: int = 0) -> SpeechModel:
    """A whole model with random weights and a tokenizer of a few pieces."""
    tokenizer = CtcTokenizer.train(["ab ba", "abba baab", "bab aba"], 8)
    encoder = EncoderConfig(**{**vars(ENCODER), "vocabulary": len(tokenizer)})
    model = SpeechModel(ModelConfig(encoder=encoder), tokenizer)
    model.features.design()
    return randomise(model, seed)


def small_reader(seed: int = 0) -> SpeechModel:
    """The same with an attention decoder, whose pieces are words and letters of their own."""
    model = small_model(seed)
    sizes = replace(DECODER, vocabulary=len(TABLE))
    model.config = replace(model.config, decoder=sizes)
    model.decoder, model.decoder_pieces = randomise(AttentionDecoder(sizes), seed), TABLE
    return model


def noise(batch: int, size: int, g: torch.Generator) -> Tensor:
    """Samples `(batch, size)` whose level wanders, as in speech."""
    envelope = torch.rand(batch, 1, size // 3000 + 2, generator=g) ** 3
    envelope = torch.nn.functional.interpolate(envelope, size)[:, 0]
    return torch.randn(batch, size, generator=g) * envelope * 0.3


def cuts(draw: st.DrawFn, size: int, longest: int) -> list[int]:
    """Sizes of uneven pieces that add up to `size`."""
    pieces = []
    while sum(pieces) < size:
        pieces.append(min(draw(st.integers(1, longest)), size - sum(pieces)))
    return pieces

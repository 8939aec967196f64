"""Builds the built-in English model from its two sources and checks it against their reference outputs.

    python scripts/import_seed.py SEED MOONSHINE OUT

SEED holds the encoder and CTC branch (weights.safetensors in half precision, pieces.model, reference.npz). MOONSHINE is
the folder `models/base-en` of the package moonshine-cpp 0.1.4 (MIT), whose attention decoder is int8 with a scale and
an offset a tensor. Both are stored as they are, without loss; log-mel, log-probabilities, memory and texts are
compared with the reference. (int8 with a scale per output channel for the encoder too, `SpeechModel.save(int8=True)`,
would halve its size; it moved the word error rate of single spoken digits by one point, of other sets by 0.1.)
Needs onnxruntime (its flatbuffers reader) besides the project.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from ort import OrtGraph
from torch import Tensor

from asr.decoder import DecoderConfig
from asr.encoder import EncoderConfig
from asr.features import FeatureConfig, LogMel, scale_frames
from asr.model import CONFIG, CTC_PIECES, DECODER, DECODER_PIECES, ENCODER, ModelConfig, SpeechModel
from asr.search.greedy import attention_greedy, ctc_greedy
from asr.tokenizer import SPACE, PieceTable
from asr.weights import OFFSET, SCALE, load_weights, save_weights

ABOUT = (
    "Encoder and CTC branch: distilled from Moonshine base-en (MIT), which was also the warm start. "
    "Attention decoder: Moonshine base-en's own, int8. See the model card in README.md."
)
TOLERANCE = 2e-2  # of log-probabilities and memory against the reference
RENAMED = {  # seed name -> project name
    "bias": "relative.weight",
    "qkv.weight": "att.qkv.weight",
    "proj.weight": "att.proj.weight",
    "ff1.weight": "ff.up.weight",
    "ff1.bias": "ff.up.bias",
    "ff2.weight": "ff.down.weight",
    "ff2.bias": "ff.down.bias",
}


def encoder_weights(seed: Path) -> dict[str, Tensor]:
    """The seed's weights in float32 under the project's names."""
    top = {"norm_tap.weight": "norm_memory.weight", "norm.weight": "norm_ctc.weight"}
    renamed = {}
    for name, weight in load_weights(seed / "weights.safetensors").items():
        if name.startswith("conv"):
            name = f"stem.{name}"
        elif name.startswith("blocks."):
            _, layer, rest = name.split(".", 2)
            name = f"blocks.{layer}.{RENAMED.get(rest, rest)}"
        renamed[top.get(name, name)] = weight
    return renamed


def decoder_weights(moonshine: Path, layers: int) -> dict[str, Tensor]:
    """The attention decoder as stored: int8 with scales and offsets, under the project's names."""
    graph = OrtGraph(moonshine / "decoder_model_merged.ort")
    products = graph.products()
    stored: dict[str, Tensor] = {}

    def put(name: str, sources: list[str], *, transpose: bool = True) -> None:
        """Rows of several quantised matrices below each other, each with its own scale and offset."""
        values, scales, offsets = [], [], []
        for value, scale, offset in map(graph.quantised, sources):
            values.append(value.T if transpose else value)
            scales.append(scale.float().expand(len(values[-1]), 1))
            offsets.append(offset.float().expand(len(values[-1]), 1))
        stored[name] = torch.cat(values)
        stored[name + SCALE], stored[name + OFFSET] = torch.cat(scales), torch.cat(offsets)

    put("embedding.weight", ["model.decoder.embed_tokens.weight_merged_0"], transpose=False)
    stored["norm.weight"] = graph.plain("model.decoder.norm.weight_merged_0")
    for i in range(layers):
        weight = lambda name, i=i: products[f"/model/decoder/layers.{i}/{name}/MatMul"]  # noqa: E731
        block = f"blocks.{i}."
        put(block + "att.qkv.weight", [weight(f"self_attn/{x}_proj") for x in "qkv"])
        put(block + "att.proj.weight", [weight("self_attn/dense")])
        put(block + "cross.q.weight", [weight("encoder_attn/q_proj")])
        put(block + "cross.kv.weight", [weight(f"encoder_attn/{x}_proj") for x in "kv"])
        put(block + "cross.proj.weight", [weight("encoder_attn/dense")])
        put(block + "ff.up.weight", [weight("mlp/up_proj")])
        put(block + "ff.down.weight", [weight("mlp/down_proj")])
        for name, source in {
            "norm_att.weight": "input_layernorm.weight",
            "norm_cross.weight": "post_attention_layernorm.weight",
            "norm_ff.weight": "final_layernorm.weight",
            "ff.up.bias": "mlp.up_proj.bias",
            "ff.down.bias": "mlp.down_proj.bias",
        }.items():
            stored[block + name] = graph.plain(f"model.decoder.layers.{i}.{source}_merged_0")
    return stored


def read_pieces(path: Path) -> list[str]:
    """The decoder's pieces: each a length (two bytes when the first is at least 128) and its bytes."""
    data, pieces, i = path.read_bytes(), [], 0
    while i < len(data):
        size, i = data[i], i + 1
        if size >= 128:
            size, i = data[i] * 128 + size - 128, i + 1
        piece, i = data[i : i + size], i + size
        try:
            pieces.append(piece.decode())
        except UnicodeDecodeError:
            pieces.append("".join(f"<0x{byte:02X}>" for byte in piece))
    assert pieces[3:5] == ["\0", "\1"]
    assert SPACE + "the" in pieces
    return pieces


def check(model: SpeechModel, reference: dict[str, np.ndarray]) -> None:
    """Compares features, posteriors, memory and texts of two utterances with the reference, printing the differences.

    Raises:
        SystemExit: a difference above `TOLERANCE`, or another text.
    """
    worst: dict[str, float] = {"log-mel": 0.0, "log-probabilities": 0.0, "memory": 0.0}

    def compare(kind: str, ours: Tensor, name: str) -> None:
        worst[kind] = max(worst[kind], float((ours[0] - torch.from_numpy(reference[name])).abs().max()))

    def same(text: str, name: str) -> None:
        if text != str(reference[name]):
            raise SystemExit(f"{name}: {text!r} where the reference has {str(reference[name])!r}")

    for i in (0, 1):
        samples = torch.from_numpy(reference[f"samples{i}"].astype(np.float32) / 32768)[None]
        frames = scale_frames(model.features(samples)[0], 1.0)
        compare("log-mel", frames, f"logmel{i}")
        full = model.encoder.encode(frames)
        compare("memory", full.memory, f"memory{i}")
        compare("log-probabilities", full.log_probs, f"logprob{i}_c1000000_r0")
        seconds = samples.shape[1] / model.config.features.sample_rate
        written = attention_greedy(model.decoder, model.decoder_pieces, full.memory, seconds, "")
        same(model.decoder_pieces.decode(written.pieces), f"final{i}")
        for chunk, look_ahead in ((7, 0), (13, 0), (27, 0), (7, 13), (13, 13)):
            state = model.start(chunk=chunk, look_ahead=look_ahead, gain=1.0)
            streamed = model(samples, state, final=True)[0].log_probs
            name = f"{i}_c{chunk}_r{look_ahead}"
            compare("log-probabilities", streamed, f"logprob{name}")
            same(model.tokenizer.decode(ctc_greedy(streamed[0])), f"text{name}")
    print("largest differences from the reference: " + ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    if max(worst.values()) > TOLERANCE:
        raise SystemExit(f"more than {TOLERANCE}: the weights were not read as they were meant")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=Path)
    parser.add_argument("moonshine", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    config = ModelConfig(FeatureConfig(), EncoderConfig(), DecoderConfig(), ABOUT)
    features = {f"features.{k}": v for k, v in LogMel(config.features).design().state_dict().items()}
    encoder = encoder_weights(args.seed)
    save_weights(features | {name: weight.half() for name, weight in encoder.items()}, args.out / ENCODER)
    save_weights(decoder_weights(args.moonshine, config.decoder.layers), args.out / DECODER)
    PieceTable(read_pieces(args.moonshine / "tokenizer.bin")).save(args.out / DECODER_PIECES)
    (args.out / CTC_PIECES).write_bytes((args.seed / "pieces.model").read_bytes())
    (args.out / CONFIG).write_text(json.dumps(asdict(config), indent=1) + "\n", "utf-8")
    with torch.inference_mode():
        check(SpeechModel.load(args.out), dict(np.load(args.seed / "reference.npz")))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Word error rates for each latency: what CTC (greedy) and the attention decoder read from chunks with look-ahead.

    python scripts/benchmarks/compare_modes.py SET/test.jsonl [...] --modes 160+160,320+320,640+640,1280+0,full

Each file is one utterance whose level is known; modes are milliseconds of chunk + look-ahead, and `full` is the whole
utterance as one chunk, as finals are read (which CTC watches as well, so that they differ a little). Files of like
length are decoded together, in one masked pass that gives what a stream gives chunk by chunk.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from asr.evaluation.wer import ErrorRate, error_rate
from asr.manifest import Manifest
from asr.nn.features import level_gain, scale_frames
from asr.nn.masks import FULL_CONTEXT
from asr.nn.speech_model import SpeechModel
from asr.search.ctc import ctc_greedy
from asr.search.greedy import attention_greedy
from asr.search.repeats import settle_repeats
from asr.training.transcripts import quick_copy

RATE = 16000
TAIL = RATE // 4  # zeros after an utterance, as at the end of a stream
BATCH_SECONDS = 60


def batches(manifest: Manifest, limit: int | None) -> Iterator[tuple[list[str], list[Tensor]]]:
    """Texts and samples of utterances of like length, at most `BATCH_SECONDS` together, padding included."""
    texts, waves = [], []
    for utterance in sorted(manifest[:limit], key=lambda u: u.duration):
        wave = torch.from_numpy(manifest.read_audio(utterance, RATE))
        if waves and len(wave) * (len(waves) + 1) > BATCH_SECONDS * RATE:
            yield texts, waves
            texts, waves = [], []
        texts.append(utterance.text)
        waves.append(wave)
    if waves:
        yield texts, waves


def read(model: SpeechModel, waves: Sequence[Tensor], chunk: int, look_ahead: int) -> tuple[list[str], list[str]]:
    """What CTC and what the decoder writes of some utterances."""
    sounding = torch.tensor([len(wave) for wave in waves])
    power = torch.stack([wave.square().mean() for wave in waves])
    padded = torch.nn.functional.pad(pad_sequence(list(waves), batch_first=True), (0, TAIL))
    log_power, _ = model.features(padded)
    frames = scale_frames(log_power, level_gain(power))
    lengths = (sounding + TAIL) // model.config.features.hop
    output = model.encoder.encode(frames, lengths, chunk=chunk, look_ahead=look_ahead)
    rows = zip(output.log_probs, output.lengths.tolist(), strict=True)
    heard = [model.tokenizer.decode(ctc_greedy(log_probs[:length])) for log_probs, length in rows]
    if model.decoder is None:
        return heard, []
    seconds, table = (sounding / RATE).tolist(), model.decoder_pieces
    written = attention_greedy(model.decoder, table, output.memory, output.lengths, seconds)
    return heard, [
        table.decode(settle_repeats(text, table, log_probs[:length], model.tokenizer, spoken).pieces)
        for text, log_probs, length, spoken in zip(
            written, output.log_probs, output.lengths.tolist(), seconds, strict=True
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--model", default="en", help="a built-in model or a folder")
    parser.add_argument("--modes", default="160+160,320+320,640+640,1280+0,full", help="which, with commas")
    parser.add_argument("--limit", type=int, help="only the first so many utterances of each set")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = SpeechModel.load(args.model)
    if model.decoder is not None:
        model.decoder = quick_copy(model.decoder)
    modes = {
        mode: (FULL_CONTEXT, 0) if mode == "full" else tuple(model.positions(float(ms)) for ms in mode.split("+"))
        for mode in args.modes.split(",")
    }
    print("WER in %: CTC / decoder")
    print("| set | " + " | ".join(modes) + " |")
    print("|---" * (len(modes) + 1) + "|")
    table = []
    for path in args.manifests:
        errors = {(mode, stage): ErrorRate() for mode in modes for stage in ("ctc", "decoder")}
        for texts, waves in batches(Manifest(path), args.limit):
            for mode, sizes in modes.items():
                with torch.inference_mode():
                    readings = zip(("ctc", "decoder"), read(model, waves, *sizes), strict=True)
                for stage, read_texts in readings:
                    errors[mode, stage] += sum(map(error_rate, texts, read_texts), ErrorRate())
        name = f"{path.parent.name}/{path.stem}"
        cells = (" / ".join(f"{errors[mode, stage].wer:.2f}" for stage in ("ctc", "decoder")) for mode in modes)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        table.append({"set": name} | {f"{mode} {stage}": e.wer for (mode, stage), e in errors.items()})
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

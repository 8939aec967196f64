#!/usr/bin/env python3
"""Compares speech gates on speech in held-out noise: ours, Silero VAD, webrtcvad, and plain loudness.

    python scripts/benchmarks/compare_gates.py corpora
    python scripts/benchmarks/compare_gates.py corpora --gate runs/gate/gate --json runs/gates.json

`corpora` is the folder that train_gate.py wants, with dev.jsonl and test.jsonl beside train.jsonl in each corpus. Each
test utterance lies between 1.5 s of nothing, and noise of the held-out folds (scripts/recipes/train_gate.py) covers all
of it at 20, 10, 5 and 0 dB. Frames are positions of 24 ms; those next to an edge of speech are left out, where labels
are a matter of taste. Scores: area under the ROC curve, and speech missed at 1 % false alarms.

The others get the best of what they can be asked for: Silero and webrtcvad the shift in time (up to 0.2 s, as much as
ours is late) that suits them best; webrtcvad the sum of its four modes, smoothed as suits it best.
Needs silero-vad, webrtcvad-wheels and scikit-learn: pip install 'asr[vit]'.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from asr.nn.features import LogMel
from asr.nn.gate import BUILT_IN, SpeechGate
from asr.training.sounds import RATE, load_noises, load_sounds, speech_positions

SNR_DB = (20, 10, 5, 0)
LEAD = 62 * 384  # samples before and after each utterance
UNIT = 384  # samples a position
COLLAR = 2  # positions on either side of a change that are left out
FALSE_ALARMS = 0.01
SHIFTS = range(9)  # positions
SETS = {
    "test": ("librispeech-clean", "librispeech-other", "speechocean762", "beneath-a-steel-sky", "alphanumeric"),
    "dev": ("librispeech-clean", "speechocean762"),
}

Score = Callable[[Tensor], np.ndarray]  # samples (time,) -> a number for each position


def mixtures(corpora: Path, split: str, most: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Clean speech `(time,)`, noise of power 1 `(time,)` and labels `(positions,)`: 1, 0, or -1 = left out.

    The speech's power is 1 where it speaks.
    """
    train, test = load_noises(corpora)
    noises = test if split == "test" else train
    features, draw = LogMel().design(), random.Random(1)
    result = []
    for name in SETS[split]:
        for sound in load_sounds(corpora / name / f"{split}.jsonl", most, seed=1):
            wave = sound.wave()
            marks = speech_positions(wave, features)
            if marks is None or not marks.any():
                continue
            wave = wave[: len(marks) * UNIT]
            power = wave[marks.repeat_interleave(UNIT)].square().mean()
            speech = F.pad(wave / power.sqrt(), (LEAD, LEAD))
            labels = F.pad(marks.long(), (LEAD // UNIT, LEAD // UNIT))
            changes = (labels[1:] != labels[:-1]).nonzero()[:, 0]
            for change in changes.tolist():
                labels[max(0, change + 1 - COLLAR) : change + 1 + COLLAR] = -1
            noise = draw.choice(noises).wave()
            noise = noise.repeat(-(-len(speech) // len(noise)))[: len(speech)]
            result.append((speech, noise / noise.square().mean().sqrt().clamp(min=1e-5), labels))
    return result


def our_score(gate: SpeechGate) -> Score:
    features = LogMel().design()

    @torch.inference_mode()
    def score(wave: Tensor) -> np.ndarray:
        log_power, _ = features(F.pad(wave, (0, gate.late * gate.step * 128))[None])
        return gate(log_power)[0][0, gate.lag :].numpy()

    return score


def silero_score() -> Score:
    from silero_vad import load_silero_vad

    model = load_silero_vad()

    @torch.inference_mode()
    def score(wave: Tensor) -> np.ndarray:
        model.reset_states()
        windows = F.pad(wave, (0, -len(wave) % 512)).split(512)
        values = np.array([float(model(window, RATE)) for window in windows])
        return _at_positions(values, 512, len(wave))

    return score


def webrtc_scores() -> dict[int, Score]:
    """Scores by the number of 10 ms frames over which they are smoothed."""
    import webrtcvad

    def score(wave: Tensor, width: int) -> np.ndarray:
        detectors = [webrtcvad.Vad(mode) for mode in range(4)]
        pcm = (wave * 32768).clamp(-32768, 32767).short().numpy()
        frames = [pcm[i : i + 160].tobytes() for i in range(0, len(pcm) - 159, 160)]
        counts = np.array([sum(d.is_speech(frame, RATE) for d in detectors) for frame in frames], float)
        return _at_positions(np.convolve(counts, np.ones(width) / width, "same"), 160, len(wave))

    return {width: lambda wave, width=width: score(wave, width) for width in (1, 11, 31)}


def loudness_score() -> Score:
    features = LogMel().design()
    return lambda wave: _at_positions(features.mean_square(features(wave[None])[0])[0].numpy(), 128, len(wave))


def _at_positions(values: np.ndarray, hop: int, size: int) -> np.ndarray:
    """Of values every `hop` samples, the one in whose frame the middle of each position lies."""
    middles = np.arange(size // UNIT) * UNIT + UNIT // 2
    return values[np.minimum(middles // hop, len(values) - 1)]


def measure(scores: list[np.ndarray], labels: list[Tensor], shift: int) -> tuple[float, float]:
    """ROC-AUC and misses at `FALSE_ALARMS`, in percent, of scores that are about `shift` positions earlier."""
    from sklearn.metrics import roc_auc_score

    shifted = [np.concatenate([s[shift:], np.repeat(s[-1:], shift)]) for s in scores]
    values = np.concatenate([s[: len(y)] for s, y in zip(shifted, labels, strict=True)])
    truth = np.concatenate([y[: len(s)].numpy() for s, y in zip(shifted, labels, strict=True)])
    speech, rest = values[truth == 1], values[truth == 0]
    threshold = np.quantile(rest, 1 - FALSE_ALARMS, method="higher")
    return 100 * roc_auc_score(truth[truth >= 0], values[truth >= 0]), 100 * float((speech <= threshold).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--gate", type=Path, default=BUILT_IN)
    parser.add_argument(
        "--split", choices=SETS, default="test", help="dev: for choices that must not see the test sets"
    )
    parser.add_argument("--most", type=int, default=40, help="utterances of each corpus")
    parser.add_argument("--level", type=float, default=0.03, help="root mean square of the speech")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    mixed = mixtures(arguments.corpora, arguments.split, arguments.most)
    labels = [y for _, _, y in mixed]
    minutes = sum(len(x) for x, _, _ in mixed) / RATE / 60
    share = float(torch.cat([y[y >= 0] for y in labels]).float().mean())
    print(f"{len(mixed)} utterances, {minutes:.1f} minutes at each SNR, {100 * share:.0f} % of the frames are speech")
    systems: dict[str, dict[str, Score]] = {
        f"gate, {96 * late} ms late": {"": our_score(SpeechGate.load(arguments.gate, late))} for late in (0, 1, 2)
    }
    if not arguments.ours_only:
        systems["silero-vad"] = {"": silero_score()}
        systems["webrtcvad"] = {f"{width}": score for width, score in webrtc_scores().items()}
        systems["loudness"] = {"": loudness_score()}
    table: dict[str, dict[int, tuple[float, float]]] = {}
    for name, variants in systems.items():
        ours = name.startswith("gate")
        by_snr = {}
        for snr in SNR_DB:
            waves = [
                ((x + n * 10 ** (-snr / 20)) * arguments.level).clamp(-1, 1) + 1e-5 * torch.randn(len(x))
                for x, n, _ in mixed
            ]
            results = []
            for score in variants.values():
                scores = [score(wave) for wave in waves]
                results += [measure(scores, labels, shift) for shift in ((0,) if ours else SHIFTS)]
            by_snr[snr] = (max(r[0] for r in results), min(r[1] for r in results))
        table[name] = by_snr
        cells = "  ".join(f"{snr:>2} dB {auc:6.2f} {missed:5.1f} %" for snr, (auc, missed) in by_snr.items())
        print(f"{name:<20} {cells}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"minutes": minutes, "table": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()

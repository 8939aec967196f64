"""What confidences are worth: how often words of each confidence are right, and whether wrong ones can be told.

    python scripts/benchmarks/calibration.py SET/test.jsonl [...] [--plot reliability.png]
    python scripts/benchmarks/calibration.py SET/dev.jsonl [...] --fit

Each utterance is read as a whole, with full context. The table has, in percent, words that are wrong and the mean
confidence; the expected calibration error over ten bins (Guo et al. 2017, "On calibration of modern neural networks");
and the area under the ROC curve of telling right words from wrong ones. `--fit` prints the constants of
`asr.search.confidence` that suit these sets best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import jiwer
import numpy as np
import torch

from asr.events import Word
from asr.manifest import Manifest
from asr.recognition.recognizer import RECORDED, Recognizer
from asr.search import confidence
from asr.text import normalise

TOGETHER = 32  # utterances
BINS = 10
READ = replace(RECORDED, endpoint=None)


def rightness(reference: str, words: Sequence[Word]) -> list[bool | None]:
    """Whether each word is what was said; None: nothing of it is compared."""
    parts = [normalise(word.text).split() for word in words]
    owner = [number for number, part in enumerate(parts) for _ in part]
    right: list[bool | None] = [True if part else None for part in parts]
    if owner:
        (chunks,) = jiwer.process_words([normalise(reference)], [" ".join(" ".join(p) for p in parts if p)]).alignments
        for chunk in chunks:
            if chunk.type in ("substitute", "insert"):
                for at in range(chunk.hyp_start_idx, chunk.hyp_end_idx):
                    right[owner[at]] = False
    return right


def read(recognizer: Recognizer, path: Path, limit: int | None) -> Iterable[tuple[Word, bool]]:
    """The words of a set, and whether each is right."""
    manifest = Manifest(path)
    utterances = manifest[:limit]
    for first in range(0, len(utterances), TOGETHER):
        some = utterances[first : first + TOGETHER]
        sounds = [manifest.read_audio(one, recognizer.sample_rate) for one in some]
        for one, transcript in zip(some, recognizer.transcribe_batch(sounds, READ), strict=True):
            for word, right in zip(transcript.words, rightness(one.text, transcript.words), strict=True):
                if right is not None:
                    yield word, right


def bins(sure: np.ndarray, right: np.ndarray) -> list[tuple[int, float, float]]:
    """Words, mean confidence and share that is right, of each tenth of confidence that has any."""
    number = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [
        (int(inside.sum()), float(sure[inside].mean()), float(right[inside].mean()))
        for inside in (number == n for n in range(BINS))
        if inside.any()
    ]


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    return sum(count * abs(said - true) for count, said, true in bins(sure, right)) / len(sure)


def area(sure: np.ndarray, right: np.ndarray) -> float:
    """The chance that of a right and a wrong word the right one has more confidence; ties count half."""
    _, place, counts = np.unique(sure, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    good, bad = right.sum(), (~right).sum()
    return float((ranks[right].sum() - good * (good + 1) / 2) / (good * bad)) if good and bad else float("nan")


def fit(evidence: np.ndarray, right: np.ndarray) -> list[float]:
    """Bias and weights of a logistic regression."""
    x, y = torch.tensor(evidence), torch.tensor(right, dtype=torch.float64)
    weights = torch.zeros(x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(weights[0] + x @ weights[1:], y)
        loss.backward()
        return loss

    optimiser.step(closure)
    return weights.tolist()


def fit_on(recognizer: Recognizer, sets: Sequence[Path], limit: int | None) -> list[float]:
    """The constants of `asr.search.confidence`, from what it is told of each word."""
    told: list[tuple[float, float]] = []

    def number(scores: Sequence[float], heard: float) -> float:
        told.append((min(scores), heard))
        return float(len(told) - 1)

    with patch("asr.recognition.second_pass.word_confidence", number):
        words = [(told[int(word.confidence)], right) for path in sets for word, right in read(recognizer, path, limit)]
    odds = [[confidence.log_odds(np.exp(score)), confidence.log_odds(heard)] for (score, heard), _ in words]
    return fit(np.array(odds), np.array([right for _, right in words]))


def plot(tables: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    """Confidence against the share of words that are right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    for name, table in tables.items():
        axes.plot([said for _, said, _ in table], [true for *_, true in table], marker="o", markersize=3, label=name)
    axes.set(xlabel="confidence", ylabel="share of words that are right", xlim=(0, 1), ylim=(0, 1))
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--model", default="en")
    parser.add_argument("--limit", type=int, help="utterances of each set")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    recognizer = Recognizer.load(args.model)
    if args.fit:
        bias, decoder, ctc = fit_on(recognizer, args.sets, args.limit)
        print(f"BIAS, DECODER, CTC = {bias:.2f}, {decoder:.2f}, {ctc:.2f}")
        return
    print("| set | words | wrong | confidence | calibration error | ROC-AUC |\n|---|---|---|---|---|---|")
    everything: list[tuple[Word, bool]] = []
    tables = {}
    for path in args.sets:
        words = list(read(recognizer, path, args.limit))
        everything += words
        name = f"{path.parent.name}/{path.stem}"
        tables[name] = row(name, words)
    if len(args.sets) > 1:
        tables["all"] = row("all", everything)
    print("\n| words | confidence | right |\n|---|---|---|")
    for count, said, true in list(tables.values())[-1]:
        print(f"| {count} | {said:.2f} | {true:.2f} |")
    if args.plot:
        plot(tables, args.plot)


def row(name: str, words: Sequence[tuple[Word, bool]]) -> list[tuple[int, float, float]]:
    """Prints a set's row, and gives its bins."""
    sure, right = np.array([word.confidence for word, _ in words]), np.array([right for _, right in words], bool)
    print(
        f"| {name} | {len(words)} | {100 * (1 - right.mean()):.1f} | {100 * sure.mean():.1f} | "
        f"{calibration_error(sure, right):.3f} | {area(sure, right):.3f} |",
        flush=True,
    )
    return bins(sure, right)


if __name__ == "__main__":
    main()

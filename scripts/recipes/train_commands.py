#!/usr/bin/env python3
"""Trains the classifier of spoken words (asr/nn/commands.py): six wake words, ten digits, and everything else.

    python scripts/recipes/train_commands.py corpora --run runs/commands
    python scripts/recipes/train_commands.py corpora --test runs/commands/model

`corpora` is a folder that is not in the repository, as for train_gate.py, with wake-words, spoken-digits,
picovoice-commands, librispeech-speakers and noise (asr/models/en/README.md lists where they come from). Noise, level
and filters are applied to mel powers, which is fast; speeds are made beforehand.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from asr.nn.commands import BUILT_IN, COMMANDS, OTHER, CommandClassifier, cut
from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import SILENCE, LogMel
from asr.nn.gate import SpeechGate
from asr.nn.sound_picture import sound_picture
from asr.nn.vit import VisionTransformer
from asr.nn.vit_weights import load_vit, save_vit
from asr.training.classifying import count, fit, plot_losses, recipe, training_options
from asr.training.sounds import (
    RATE,
    Sound,
    load_corpora,
    load_noises,
    load_sounds,
    speech_positions,
    synthetic_noise,
)

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
OTHER_SPEECH = {"picovoice-commands": 250, "librispeech-speakers": 120}
SPEEDS = (0.87, 1.0, 1.14)
SHIFT = 30  # frames (0.24 s) by which a window misses the middle of a word, either way
SNR_DB = (5.0, 40.0)
OTHER_SHARE, NOISE_SHARE = 0.14, 0.08  # of the clips: other speech, no speech


class Clips:
    """Draws windows of log-mel frames with labels.

    Args:
        words: recordings, whose texts are labels.
        other: recordings of other speech.
        noises: recordings of noise.
        labels: all labels, the last one for everything else.
        seed: of the draws.
    """

    def __init__(
        self, words: list[Sound], other: list[Sound], noises: list[Sound], labels: list[str], seed: int = 0
    ) -> None:
        self.draw, self.labels = random.Random(seed), labels
        torch.manual_seed(seed)
        self.features = LogMel().design()
        self.mels, self.window = COMMANDS.image
        self.words = [
            ([self._frames(word.wave(), speed) for speed in SPEEDS], labels.index(word.text)) for word in words
        ]
        self.corpora = {}
        for row, word in enumerate(words):
            self.corpora.setdefault((word.corpus, word.text), []).append(row)
        self.other = [self._frames(sound.wave(), 1.0)[0] for sound in other]
        made = [synthetic_noise(5 * RATE, self.draw) * 0.03 for _ in range(100)]
        self.noises = [self._frames(wave, 1.0)[0] for wave in [*(n.wave() for n in noises), *made]]

    @torch.no_grad()
    def _frames(self, wave: Tensor, speed: float) -> tuple[Tensor, int]:
        """Frames of log10 power `(frames, mels)` at a speed, and the frame in the middle of the speech."""
        if speed != 1:
            size = round(len(wave) / speed)
            wave = F.interpolate(wave[None, None], size=size, mode="linear", align_corners=False)[0, 0]
        log_power = self.features(wave[None])[0][0, :, : self.mels]
        return log_power.half(), middle_of_speech(wave, log_power, self.features)

    def clip(self) -> tuple[Tensor, int]:
        """A window `(window, mels)` of log10 power and its label's number."""
        draw, kind = self.draw, self.draw.random()
        if kind < OTHER_SHARE:
            log_power = draw.choice(self.other)
            frames, label = cut(log_power.float(), draw.randrange(len(log_power)), self.window), len(self.labels) - 1
        elif kind < OTHER_SHARE + NOISE_SHARE:
            frames, label = torch.full((self.window, self.mels), SILENCE), len(self.labels) - 1
        else:
            row = draw.choice(self.corpora[draw.choice(list(self.corpora))])
            speeds, label = self.words[row]
            log_power, middle = draw.choice(speeds)
            frames = cut(log_power.float(), middle + draw.randint(-SHIFT, SHIFT), self.window)
        return self._disturb(frames), label

    def _disturb(self, frames: Tensor) -> Tensor:
        """Noise, another microphone's frequency response, and holes in time and frequency."""
        draw = self.draw
        loudest = frames.mean(1).max()
        if draw.random() < 0.7 or loudest <= SILENCE:
            noise = draw.choice(self.noises).float()
            noise = noise.roll(draw.randrange(len(noise)), 0)
            noise = noise.repeat(-(-self.window // len(noise)), 1)[: self.window]
            level = max(float(loudest), -6.0) - noise.mean(1).max() - draw.uniform(*SNR_DB) / 10
            frames = torch.logaddexp(frames * 2.302585, (noise + level) * 2.302585) / 2.302585
        if draw.random() < 0.5:
            points = torch.tensor([[[draw.uniform(-0.4, 0.4) for _ in range(draw.randint(2, 6))]]])
            frames = frames + F.interpolate(points, size=self.mels, mode="linear", align_corners=True)[0, 0]
        if draw.random() < 0.5:
            width = draw.randint(1, 10)
            low = draw.randint(0, self.mels - width)
            frames[:, low : low + width] = frames.mean()
        if draw.random() < 0.5:
            width = draw.randint(1, 8)
            start = draw.randint(0, self.window - width)
            frames[start : start + width] = frames.mean()
        if draw.random() < 0.3:  # what a gap in the recording looks like
            start = draw.randint(0, self.window // 4)
            frames[:start] = SILENCE
        return frames

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Pictures `(size, 1, mels, window)` and class numbers `(size,)`."""
        drawn = [self.clip() for _ in range(size)]
        return sound_picture(torch.stack([frames for frames, _ in drawn])), torch.tensor([label for _, label in drawn])


def middle_of_speech(wave: Tensor, log_power: Tensor, features: LogMel) -> int:
    """The frame in the middle of the speech of a short recording, told by level."""
    marks = speech_positions(wave, features)
    if marks is not None and marks.any():
        found = marks.nonzero()[:, 0]
        return int(found[0] + found[-1] + 1) * SUBSAMPLING // 2
    weight = 10 ** log_power.mean(1)
    return int((weight * torch.arange(len(weight))).sum() / weight.sum())


def percent_right(classifier: CommandClassifier, sounds: list[Sound], expected: str | None = None) -> float:
    """Percent of recordings that are taken for what is said (or `expected`), by what stands out most in each."""
    right = 0
    for sound in sounds:
        verdicts = classifier.classify(sound.wave())
        label = OTHER
        if verdicts:
            label = min(verdicts, key=lambda v: v.probabilities[OTHER]).label
        right += label == (expected or sound.text)
    return 100 * right / len(sounds)


def report(classifier: CommandClassifier, corpora: Path, split: str) -> None:
    """Prints the accuracies on a split."""
    print(
        f"wake words ({split}): {percent_right(classifier, load_sounds(corpora / f'wake-words/{split}.jsonl')):.1f} %"
    )
    if split == "test":
        digits = load_sounds(corpora / "spoken-digits/test.jsonl")
        print(f"digits ({split}): {percent_right(classifier, digits):.1f} %")
    speech = load_sounds(corpora / f"librispeech-clean/{split}.jsonl", 60)
    print(f"other speech ({split}) in which no word is found: {percent_right(classifier, speech, OTHER):.1f} %")
    train, test = load_noises(corpora)
    noises = test if split == "test" else train
    print(f"noises ({split}) in which no word is found: {percent_right(classifier, noises, OTHER):.1f} %")


def main() -> None:
    parser = training_options(__doc__, steps=2500, rate=1.5e-3, run=False)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--start", type=Path, help="a classifier to go on from")
    parser.add_argument("--test", type=Path, nargs="?", const=BUILT_IN, help="only measure a trained classifier")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.test:
        report(CommandClassifier.load(arguments.test), arguments.corpora, arguments.split)
        return
    if arguments.run is None:
        parser.error("--run or --test is needed")
    words = load_corpora(arguments.corpora, dict.fromkeys(("wake-words", "spoken-digits")))
    labels = [*sorted({word.text for word in words} - set(DIGITS)), *DIGITS, OTHER]
    other = load_corpora(arguments.corpora, OTHER_SPEECH)
    noises, _ = load_noises(arguments.corpora)
    clips = Clips(words, other, noises, labels, arguments.seed)
    model = (
        VisionTransformer(COMMANDS) if arguments.start is None else load_vit(arguments.start)[0].requires_grad_(True)
    )
    print(f"{len(words)} recordings of {len(labels) - 1} words, {len(other)} of other speech; {count(model)} weights")

    def loss_of(step: int) -> Tensor:
        pictures, targets = clips.batch(arguments.batch)
        return F.cross_entropy(model(pictures), targets, label_smoothing=0.05)

    with torch.no_grad():
        dev = Clips(load_sounds(arguments.corpora / "wake-words" / "dev.jsonl"), other[:1], noises[:1], labels, 1)
        pictures = torch.stack([cut(f[1][0].float(), f[1][1], clips.window) for f, _ in dev.words])
        pictures, answers = sound_picture(pictures), torch.tensor([label for _, label in dev.words])

    @torch.no_grad()
    def progress() -> str:
        return f"wake words (dev) {100 * float((model(pictures).argmax(1) == answers).float().mean()):.1f} %"

    losses = fit(model, loss_of, *recipe(arguments, average=0.998), progress)
    about = f"scripts/recipes/train_commands.py, {arguments.steps} steps"
    save_vit(model, arguments.run / "model", {"labels": labels, "about": about}, pack="float16")
    plot_losses(losses, arguments.run / "loss.png")
    print(progress())
    report(CommandClassifier(model, labels, SpeechGate.load()), arguments.corpora, "dev")


if __name__ == "__main__":
    main()

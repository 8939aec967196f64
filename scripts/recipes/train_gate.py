#!/usr/bin/env python3
"""Trains the speech gate (asr/nn/gate.py) on speech under noise, noise alone, and noises that are synthesised.

    python scripts/recipes/train_gate.py corpora --run runs/gate
    python scripts/recipes/train_gate.py corpora --held-out runs/noises
    asr transcribe runs/noises --vad -d runs/noise-texts         # names each file in which no words were heard

`corpora` is a folder that is not in the repository: a folder for each corpus (asr/models/en/README.md lists where they
come from), in it train.jsonl and train.tar; `noise` among them holds sounds that are no speech. Where speech is, is
told from the level of the clean recordings before noise is added. Three fifths of each class of noise are trained on,
the rest is held out for scripts/benchmarks/compare_gates.py: `--held-out` writes it as sound files, in which nothing
should become words, and trains nothing.
"""

from __future__ import annotations

import random
from pathlib import Path

import soundfile
import torch
from torch import Tensor
from torch.nn import functional as F

from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import LogMel
from asr.nn.gate import GATE, SpeechGate
from asr.nn.vit import VisionTransformer
from asr.training.classifying import count, fit, plot_losses, recipe, training_options
from asr.training.sounds import RATE, Sound, load_corpora, load_noises, speech_positions, synthetic_noise

CORPORA = {  # how many recordings of each; alike ones need not be many
    "librispeech-clean": 400,
    "librispeech-speakers": 249,
    "librispeech-train": 500,
    "common-voice": 1200,
    "speechocean762": 1000,
    "picovoice-commands": 300,
    "beneath-a-steel-sky": 500,
    "drascula": 200,
    "synthetic": 300,
    "wake-words": 400,
    "alphanumeric": 96,
    "spoken-digits": 300,
    "arctic-fraser": 60,
    "kathleen": 60,
    "ljspeech": 60,
    "asterisk": 100,
    "gcompris-words": 150,
}
CLIP = 3 * RATE  # samples
NO_SPEECH = 0.3  # share of the clips
SNR_DB = (-3.0, 30.0)
LEVEL = (0.0005, 0.3)  # root mean square of a clip
WEIGHTS = (1.0, 1.0, 0.6)  # of the loss of the positions 2, 1 and 0 steps late


class Mixer:
    """Draws clips of speech in noise and tells where the speech is.

    Args:
        speech: recordings of speech.
        noises: recordings of everything else.
        seed: of the draws.
    """

    def __init__(self, speech: list[Sound], noises: list[Sound], seed: int = 0) -> None:
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.features = LogMel().design()
        self.noises = noises
        marked = ((sound, speech_positions(sound.wave(), self.features)) for sound in speech)
        self.speech = [(sound, positions) for sound, positions in marked if positions is not None]

    def clip(self) -> tuple[Tensor, Tensor]:
        """Samples `(CLIP,)` and speech `(positions,)` in them."""
        draw = self.draw
        wave, speech = torch.zeros(CLIP), torch.zeros(CLIP // 128 // SUBSAMPLING)
        spoken = draw.random() >= NO_SPEECH
        if spoken:
            self._speak(wave, speech)
        wave = self._room(wave) if spoken and draw.random() < 0.2 else wave
        if not spoken or draw.random() < 0.85:
            noise = self._noise()
            sounding = wave[speech.repeat_interleave(128 * SUBSAMPLING).nonzero()[:, 0]] if speech.any() else wave[:0]
            power = sounding.square().mean() if len(sounding) else torch.tensor(1.0)
            wave = wave + noise * (power * 10 ** (-draw.uniform(*SNR_DB) / 10)).sqrt()
        level = torch.tensor(LEVEL).log()
        wave = wave * (draw.uniform(*level.tolist()) - wave.square().mean().sqrt().clamp(min=1e-9).log()).exp()
        wave = wave + torch.randn(CLIP) * 10 ** draw.uniform(-6, -4.2)  # a converter's own noise
        if draw.random() < 0.8:
            wave = (wave * 32768).round() / 32768
        return wave.clamp(-1, 1), speech

    def _speak(self, wave: Tensor, speech: Tensor) -> None:
        """Writes one or two cuts of recordings, with pauses before, between and after them."""
        unit, at = 128 * SUBSAMPLING, 0
        for _ in range(self.draw.choice((1, 1, 2))):
            sound, marks = self.draw.choice(self.speech)
            start = self.draw.randint(0, max(0, len(marks) - 20))
            at += self.draw.choice((0, self.draw.randint(0, 60)))
            size = min(len(marks) - start, len(speech) - at, self.draw.randint(15, 125))
            if size < 5:
                return
            cut = sound.wave()[start * unit : (start + size) * unit]
            loudness = cut.square().mean().sqrt().clamp(min=1e-4)
            wave[at * unit : (at + size) * unit] += cut / loudness * 10 ** self.draw.uniform(-0.15, 0.15)
            speech[at : at + size] = marks[start : start + size].float()
            at += size

    def _noise(self) -> Tensor:
        """Noise `(CLIP,)` of root mean square 1: recorded, synthetic, or both."""
        kind = self.draw.random()
        noise = torch.zeros(CLIP)
        if kind < 0.65:
            noise += self._recorded()
        if kind > 0.55:
            noise += synthetic_noise(CLIP, self.draw) * 10 ** self.draw.uniform(-1, 0.3)
        return noise / noise.square().mean().sqrt().clamp(min=1e-9)

    def _recorded(self) -> Tensor:
        wave = self.draw.choice(self.noises).wave()
        if self.draw.random() < 0.5:  # faster or slower: another helicopter, another dog
            size = int(len(wave) * self.draw.uniform(0.75, 1.3))
            wave = F.interpolate(wave[None, None], size=size, mode="linear", align_corners=False)[0, 0]
        start = self.draw.randrange(len(wave))
        wave = torch.cat([wave[start:], wave[:start]]).repeat(-(-CLIP // len(wave)))[:CLIP]
        if self.draw.random() < 0.3:
            wave = wave.flip(0)
        if self.draw.random() < 0.3:
            tilt = torch.linspace(0, self.draw.uniform(-2, 2), CLIP // 2 + 1)
            wave = torch.fft.irfft(torch.fft.rfft(wave) * 10 ** (tilt / 2), CLIP)
        return wave / wave.square().mean().sqrt().clamp(min=1e-5)

    def _room(self, wave: Tensor) -> Tensor:
        """Echoes that decay within 0.1 to 0.6 s."""
        lags = torch.arange(RATE // 2) / RATE
        response = torch.randn(len(lags)) * 10 ** (-3 * lags / self.draw.uniform(0.1, 0.6))
        response = response / response.norm() * self.draw.uniform(0.1, 0.8)
        response[0] = 1
        size = CLIP + len(lags)
        return torch.fft.irfft(torch.fft.rfft(wave, size) * torch.fft.rfft(response, size), size)[:CLIP]

    def batch(self, clips: int, windows: int, gate: SpeechGate) -> tuple[Tensor, Tensor]:
        """Windows `(clips * windows, window, mels)` of log10 power, speech `(clips * windows, classes)` of each."""
        drawn = [self.clip() for _ in range(clips)]
        log_power, _ = self.features(torch.stack([wave for wave, _ in drawn]))
        frames = torch.cat([gate.start(clips).recent, log_power], 1).unfold(1, gate.window, gate.step)
        classes = gate.vit.config.classes
        speech = torch.stack([marks for _, marks in drawn])
        before = classes - gate.positions  # positions before the first step: silence
        speech = F.pad(speech, (before, 0)).unfold(1, classes, gate.positions)
        steps = min(frames.shape[1], speech.shape[1])
        rows = torch.stack([torch.randperm(steps)[:windows] for _ in range(clips)])
        each = torch.arange(clips)[:, None]
        return frames[each, rows].flatten(0, 1).transpose(1, 2), speech[each, rows].flatten(0, 1)


def write_noises(noises: list[Sound], folder: Path) -> None:
    """A sound file of each, with the class in its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, noise in enumerate(noises):
        name = noise.text.partition(" - ")[2] or noise.text
        soundfile.write(folder / f"{number:03} {name}.flac", noise.samples, RATE)
    print(f"{len(noises)} files, {sum(len(n.samples) for n in noises) / RATE / 60:.1f} minutes")


def main() -> None:
    parser = training_options(__doc__, steps=2500, rate=2e-3, run=False)
    parser.add_argument("corpora", type=Path, help="folder with the corpora")
    parser.add_argument("--clips", type=int, default=16, help="in a batch")
    parser.add_argument("--windows", type=int, default=15, help="of each clip")
    parser.add_argument("--few", type=int, default=1, help="take only every so many recordings of speech, for a trial")
    parser.add_argument("--start", type=Path, help="a gate to go on from")
    parser.add_argument("--held-out", type=Path, metavar="FOLDER", help="only write the noises that are held out")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    noises, held_out = load_noises(arguments.corpora)
    if arguments.held_out:
        write_noises(held_out, arguments.held_out)
        return
    if arguments.run is None:
        parser.error("--run or --held-out is needed")
    speech = load_corpora(arguments.corpora, {name: most // arguments.few for name, most in CORPORA.items()})
    mixer = Mixer(speech, noises, arguments.seed)
    hours = sum(len(sound.samples) for sound, _ in mixer.speech) / RATE / 3600
    print(f"{len(mixer.speech)} of {len(speech)} recordings are clean enough ({hours:.1f} h); {len(noises)} noises")
    gate = SpeechGate(VisionTransformer(GATE)) if arguments.start is None else SpeechGate.load(arguments.start)
    gate.requires_grad_(True)
    print(f"{count(gate)} weights")
    weights = torch.tensor(WEIGHTS).repeat_interleave(gate.positions)

    def loss_of(step: int) -> Tensor:
        with torch.no_grad():
            windows, marks = mixer.batch(arguments.clips, arguments.windows, gate)
        return F.binary_cross_entropy_with_logits(gate.judge(windows), marks, weight=weights)

    losses = fit(gate, loss_of, *recipe(arguments, average=0.998))
    gate.save(arguments.run / "gate", f"train_gate.py, {arguments.steps} steps on {hours:.1f} h of speech")
    plot_losses(losses, arguments.run / "loss.png")


if __name__ == "__main__":
    main()

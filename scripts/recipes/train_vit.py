#!/usr/bin/env python3
"""Trains a Vision Transformer on folders of images, or on scikit-learn's digits where none are named.

    python scripts/recipes/train_vit.py --run runs/digits
    python scripts/recipes/train_vit.py --images photos --size s --start vit_small.safetensors --run runs/photos
    python scripts/recipes/train_vit.py --scaling --run runs/scaling   # a tenth, a third, all of the data; and a CNN

It writes the model, its losses (loss.png) and what its class token looks at (attention.png).
Needs scikit-learn and matplotlib: pip install 'asr[vit]'.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.errors import AsrError
from asr.nn.vit import SIZES, VisionTransformer, ViTConfig, attention_rollout, token_picture
from asr.nn.vit_weights import from_timm, save_vit
from asr.nn.weights import load_weights
from asr.training.classifying import count, fit, plot_losses, recipe, training_options
from asr.training.pictures import Pictures, PictureSet, augment, digits, folder

DIGITS = ViTConfig((8, 8), (2, 2), 1, d_model=64, heads=4, inner=128, layers=4, classes=10, dropout=0.1)
SHARES = (0.1, 0.3, 1.0)
SHOWN = 8  # pictures whose attention is drawn


def small_cnn(channels: int, classes: int) -> nn.Module:
    """A convolutional network with about as many weights as `DIGITS`."""
    layers: list[nn.Module] = []
    for width, stride in ((40, 1), (64, 2), (80, 1), (64, 2)):
        layers += [nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(channels, classes))


@torch.no_grad()
def accuracy(model: nn.Module, pictures: Pictures) -> float:
    """Share of pictures whose likeliest class is theirs, in percent."""
    model.eval()
    guesses = torch.cat([model(part).argmax(1) for part in pictures.images.split(256)])
    return 100 * float((guesses == pictures.labels).float().mean())


def train(model: nn.Module, data: PictureSet, options: argparse.Namespace) -> list[float]:
    """Trains on batches that are drawn evenly; returns the losses."""

    def loss_of(step: int) -> Tensor:
        rows = torch.randint(len(data.train.images), (options.batch,))
        pictures = augment(data.train.images[rows], flip=options.flip)
        return F.cross_entropy(model(pictures), data.train.labels[rows], label_smoothing=0.1)

    def report() -> str:
        return f"test accuracy {accuracy(model, data.test):.2f} %"

    return fit(model, loss_of, *recipe(options, average=0.995), report)


def draw_attention(model: VisionTransformer, data: PictureSet, path: Path) -> None:
    """Test pictures above, what flows from them into the class token below (attention rollout)."""
    from matplotlib.figure import Figure

    images = data.test.images[:SHOWN]
    with torch.no_grad():
        rollout = attention_rollout(model.attention_maps(images))[:, 0]
        guesses = model(images).argmax(1)
    seen = token_picture(rollout, model.config.grid, tuple(images.shape[2:]))
    figure = Figure(figsize=(1.4 * len(images), 3.2), layout="constrained")
    for column, axes in enumerate(figure.subplots(2, len(images), squeeze=False).T):
        picture = images[column].movedim(0, -1)
        picture = (picture - picture.min()) / (picture.max() - picture.min()).clamp(min=1e-6)
        axes[0].imshow(picture.squeeze(-1).numpy(), cmap="gray")
        axes[0].set_title(data.names[guesses[column]], fontsize=9)
        axes[1].imshow(seen[column].numpy(), cmap="magma", vmin=0, vmax=1)
        for each in axes:
            each.set_axis_off()
    figure.savefig(path, dpi=120)


def scaling(data: PictureSet, options: argparse.Namespace) -> None:
    """Accuracy of ViT and CNN trained on shares of the data, for the same number of steps: scaling.json and .png."""
    from matplotlib.figure import Figure

    makers = {"ViT": lambda: VisionTransformer(DIGITS), "CNN": lambda: small_cnn(1, len(data.names))}
    results: dict[str, list[float]] = {name: [] for name in makers}
    for share in SHARES:
        part = replace(data, train=data.train.share(share))
        for name, make in makers.items():
            torch.manual_seed(0)
            model = make()
            train(model, part, options)
            results[name].append(accuracy(model, data.test))
            print(f"{name} ({count(model)} weights), {len(part.train.labels)} pictures: {results[name][-1]:.2f} %")
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, values in results.items():
        axes.plot([100 * share for share in SHARES], values, "o-", label=name)
    axes.set(xscale="log", xlabel="% of the training pictures", ylabel="test accuracy (%)")
    axes.set_xticks([100 * share for share in SHARES], [f"{100 * share:.0f}" for share in SHARES])
    axes.legend()
    figure.savefig(options.run / "scaling.png", dpi=120)
    (options.run / "scaling.json").write_text(json.dumps({"shares": SHARES, **results}, indent=1) + "\n")


def build(arguments: argparse.Namespace, data: PictureSet) -> VisionTransformer:
    """A new transformer, or one that starts from timm's weights of the same size."""
    if arguments.images is None:
        return VisionTransformer(DIGITS)
    side = arguments.image
    config = replace(SIZES[arguments.size], image=(side, side), classes=len(data.names), dropout=0.1)
    if arguments.start is None:
        return VisionTransformer(config)
    weights = from_timm(load_weights(arguments.start))
    grid = tuple(weights["positions.weight"].shape[:2])
    trained = replace(config, image=tuple(n * p for n, p in zip(grid, config.patch, strict=True)))
    trained = replace(trained, classes=len(weights["head.out.bias"]))
    model = VisionTransformer(trained)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise AsrError(f"{arguments.start}: not the weights of a ViT of size {arguments.size}") from error
    return model.for_classes(len(data.names))


def main() -> None:
    parser = training_options(__doc__, steps=1500, rate=2e-3)
    parser.add_argument("--images", type=Path, help="a folder with a folder of images for each class")
    parser.add_argument("--size", choices=SIZES, default="ti", help="of the transformer, for images")
    parser.add_argument("--image", type=int, default=224, help="side of the images (pixels)")
    parser.add_argument("--start", type=Path, help="timm's weights (safetensors) to fine-tune")
    parser.add_argument("--flip", action="store_true", help="mirrored images mean the same")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--scaling", action="store_true", help="compare shares of the data, ViT and CNN (digits)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    arguments.run.mkdir(parents=True, exist_ok=True)
    data = digits() if arguments.images is None else folder(arguments.images, arguments.image)
    if arguments.scaling:
        scaling(data, arguments)
        return
    model = build(arguments, data)
    print(f"{len(data.train.labels)} pictures to train on, {len(data.test.labels)} to test; {count(model)} weights")
    begun = time.monotonic()
    losses = train(model, data, arguments)
    print(f"test accuracy {accuracy(model, data.test):.2f} % after {time.monotonic() - begun:.0f} s")
    save_vit(model, arguments.run / "model", {"labels": data.names})
    plot_losses(losses, arguments.run / "loss.png")
    draw_attention(model, data, arguments.run / "attention.png")


if __name__ == "__main__":
    try:
        main()
    except AsrError as error:
        sys.exit(f"train_vit: {error}")

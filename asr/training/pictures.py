"""Labelled pictures to train on: folders of images, and scikit-learn's handwritten digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from asr.errors import AsrError

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
HELD_OUT = 4  # one picture in so many is a test picture


@dataclass(frozen=True)
class Pictures:
    """Pictures `(count, channels, height, width)`, mean about 0 and deviation about 1, and class numbers `(count,)`."""

    images: Tensor
    labels: Tensor

    def share(self, share: float) -> Pictures:
        """The first pictures of each class, so that sets of different shares lie in each other."""
        kept = []
        for label in self.labels.unique():
            rows = (self.labels == label).nonzero()[:, 0]
            kept.append(rows[: max(1, round(share * len(rows)))])
        rows = torch.cat(kept)
        return Pictures(self.images[rows], self.labels[rows])


@dataclass(frozen=True)
class PictureSet:
    """Pictures to train on, others to test on, and the names of the classes."""

    train: Pictures
    test: Pictures
    names: list[str]


def digits() -> PictureSet:
    """scikit-learn's 1797 handwritten digits of 8 x 8; a quarter, drawn with a fixed seed, is for testing."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None]
    return _split(images / 16, torch.tensor(data.target), [str(name) for name in data.target_names])


def folder(path: Path, size: int) -> PictureSet:
    """A folder with a folder of image files for each class; a quarter, drawn with a fixed seed, is for testing.

    Pictures are scaled so that their shorter side is `size`, and the middle is taken.

    Raises:
        AsrError: there are no two classes of images, or one cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    names = sorted(p.name for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    files = [
        (file, label)
        for label, name in enumerate(names)
        for file in sorted((path / name).iterdir())
        if file.suffix.lower() in SUFFIXES
    ]
    if len({label for _, label in files}) < 2:
        raise AsrError(f"{path}: a folder of images for each class is needed, with at least two of them")
    images = []
    for file, _ in files:
        try:
            with Image.open(file) as opened:
                images.append(_square(opened.convert("RGB"), size))
        except (UnidentifiedImageError, OSError) as error:
            raise AsrError(f"{file}: not an image that can be read") from error
    return _split(torch.stack(images), torch.tensor([label for _, label in files]), names)


def _square(picture, size: int) -> Tensor:
    scale = size / min(picture.size)
    picture = picture.resize([max(size, round(side * scale)) for side in picture.size])
    left, top = ((side - size) // 2 for side in picture.size)
    picture = picture.crop((left, top, left + size, top + size))
    values = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return values.view(size, size, 3).permute(2, 0, 1).float() / 255


def _split(images: Tensor, labels: Tensor, names: list[str]) -> PictureSet:
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    test = len(images) // HELD_OUT
    centre, spread = images[test:].mean((0, 2, 3), keepdim=True), images[test:].std((0, 2, 3), keepdim=True)
    images = (images - centre) / spread.clamp(min=1e-6)
    return PictureSet(Pictures(images[test:], labels[test:]), Pictures(images[:test], labels[:test]), names)


def augment(
    images: Tensor, *, degrees: float = 12, shift: float = 0.1, scale: float = 0.12, flip: bool = False
) -> Tensor:
    """Each picture turned, moved and scaled at random, and mirrored half of the time where `flip` allows it.

    Args:
        images: `(batch, channels, height, width)`.
        degrees: of turning, either way.
        shift: of the side.
        scale: either way, of the size.
        flip: whether a mirrored picture means the same.
    """
    rows = len(images)
    angle = (2 * torch.rand(rows) - 1) * math.radians(degrees)
    zoom = 1 + (2 * torch.rand(rows) - 1) * scale
    move = (2 * torch.rand(rows, 2) - 1) * 2 * shift
    mirror = torch.where(torch.rand(rows) < 0.5, -1.0, 1.0) if flip else torch.ones(rows)
    theta = torch.stack(
        [
            torch.stack([mirror * zoom * angle.cos(), -zoom * angle.sin(), move[:, 0]], 1),
            torch.stack([mirror * zoom * angle.sin(), zoom * angle.cos(), move[:, 1]], 1),
        ],
        1,
    )
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)

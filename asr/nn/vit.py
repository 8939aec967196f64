"""The Vision Transformer (Dosovitskiy et al. 2021, "An image is worth 16x16 words") on the shared attention core.

Pictures are `(batch, channels, height, width)`. A spectrogram is a picture of one channel whose height is the mels and
whose width is the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.nn.positions import LearnedPositions
from asr.nn.sizes import bounded, check_heads
from asr.nn.transformer import Block

EPSILON = 1e-6  # of the LayerNorms, as in the published weights


@dataclass(frozen=True)
class ViTConfig:
    """Sizes of a Vision Transformer; the defaults are those of ViT-B/16.

    Attributes:
        image: height and width of the pictures it is trained on; others are read with interpolated positions.
        patch: height and width of a patch.
        channels: of the pictures.
        d_model: width of the blocks.
        heads: attention heads.
        inner: inner width of the feed-forward networks.
        layers: blocks.
        classes: outputs.
        hidden: width of the head's hidden layer (for pre-training); 0 = a linear head (for fine-tuning).
        dropout: of each residual branch, in training.
    """

    image: tuple[int, int] = bounded((224, 224), 1, 65536)
    patch: tuple[int, int] = bounded((16, 16), 1, 65536)
    channels: int = bounded(3, 1, 1024)
    d_model: int = bounded(768, 1, 65536)
    heads: int = bounded(12, 1, 1024)
    inner: int = bounded(3072, 1, 262144)
    layers: int = bounded(12, 1, 1024)
    classes: int = bounded(1000, 1, 1 << 24)
    hidden: int = bounded(0, 0, 262144)
    dropout: float = bounded(0.0, 0, 0.9)

    def __post_init__(self) -> None:
        for name in ("image", "patch"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON and YAML have lists
        _grid(self.image, self.patch)
        check_heads(self.d_model, self.heads)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a picture of the trained size."""
        return _grid(self.image, self.patch)


def _grid(image: tuple[int, ...], patch: tuple[int, int]) -> tuple[int, int]:
    if any(size < 1 or size % part for size, part in zip(image, patch, strict=True)):
        size, part = (" x ".join(map(str, sides)) for sides in (image, patch))
        raise ValueError(f"a picture of {size} does not divide into patches of {part}")
    return image[0] // patch[0], image[1] // patch[1]


TINY = ViTConfig(d_model=192, heads=3, inner=768)
SMALL = ViTConfig(d_model=384, heads=6, inner=1536)
BASE = ViTConfig()
LARGE = ViTConfig(d_model=1024, heads=16, inner=4096, layers=24)
SIZES = {"ti": TINY, "s": SMALL, "b": BASE, "l": LARGE}


class PatchEmbedding(nn.Module):
    """Each patch of a picture, flattened and projected: a convolution whose stride is its size (section 3.1)."""

    def __init__(self, channels: int, patch: tuple[int, int], d_model: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, d_model, patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """`(batch, channels, height, width)` -> `(batch, rows, columns, d_model)`."""
        _grid(tuple(images.shape[2:]), self.proj.kernel_size)
        return self.proj(images).movedim(1, -1)


class Head(nn.Module):
    """From the class token to the logits: linear, or with one hidden layer and tanh where `hidden` is not 0."""

    def __init__(self, d_model: int, classes: int, hidden: int = 0) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, hidden) if hidden else None
        self.out = nn.Linear(hidden or d_model, classes)

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, d_model)` -> `(batch, classes)`."""
        return self.out(x if self.hidden is None else torch.tanh(self.hidden(x)))


class VisionTransformer(nn.Module):
    """Pictures -> logits: patches and a class token through pre-norm blocks (section 3.1, equations 1 to 4).

    The class token's own position is part of the token.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = c = config
        self.patches = PatchEmbedding(c.channels, c.patch, c.d_model)
        self.token = nn.Parameter(torch.zeros(c.d_model))
        self.positions = LearnedPositions(c.grid, c.d_model)
        self.blocks = nn.ModuleList(
            Block(c.d_model, c.heads, c.inner, bias=True, dropout=c.dropout, epsilon=EPSILON) for _ in range(c.layers)
        )
        self.dropout = nn.Dropout(c.dropout)
        self.norm = nn.LayerNorm(c.d_model, EPSILON)
        self.head = Head(c.d_model, c.classes, c.hidden)
        if not self.token.is_meta:  # drawing numbers on "meta" would import a compiler, for seconds
            self.apply(_initialise)
            nn.init.normal_(self.token, std=0.02)

    def embed(self, images: Tensor) -> Tensor:
        """Pictures -> the blocks' input `(batch, 1 + rows * columns, d_model)`, the class token first.

        ValueError when a picture does not divide into patches.
        """
        patches = self.patches(images)
        x = (patches + self.positions(*patches.shape[1:3])).flatten(1, 2)
        return self.dropout(torch.cat([self.token.expand(len(x), 1, -1), x], 1))

    def features(self, images: Tensor) -> Tensor:
        """What the blocks make of all tokens, normalised: `(batch, 1 + rows * columns, d_model)`."""
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, images: Tensor) -> Tensor:
        """`(batch, channels, height, width)` -> logits `(batch, classes)`."""
        return self.head(self.features(images)[:, 0])

    def attention_maps(self, images: Tensor) -> Tensor:
        """What each token attends to: `(batch, layers, heads, tokens, tokens)`, tokens as in `embed`."""
        x, maps = self.embed(images), []
        for block in self.blocks:
            maps.append(block.att(block.norm_att(x), return_weights=True)[1])
            x = block(x)
        return torch.stack(maps, 1)

    def for_classes(self, classes: int) -> VisionTransformer:
        """This transformer with a new linear head that starts from zeros, for fine-tuning (section 3.2)."""
        other = VisionTransformer(replace(self.config, classes=classes, hidden=0))
        body = {name: value for name, value in self.state_dict().items() if not name.startswith("head.")}
        other.load_state_dict(body, strict=False)
        nn.init.zeros_(other.head.out.weight)
        return other


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


def attention_rollout(maps: Tensor, residual: float = 0.5) -> Tensor:
    """How much of each token flows into each token of the output (Abnar and Zuidema 2020, section 3).

    The heads' mean of each layer is mixed with the residual path, and the layers are multiplied.

    Args:
        maps: `(batch, layers, heads, tokens, tokens)`.
        residual: share of the residual path.

    Returns:
        `(batch, tokens, tokens)`, rows add up to 1.
    """
    same = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    flow = same.expand(len(maps), -1, -1)
    for layer in maps.mean(2).unbind(1):
        flow = (residual * same + (1 - residual) * layer) @ flow
    return flow


def token_picture(weights: Tensor, grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Weights of the patches, as the class token's row of a map has them, as a picture.

    Args:
        weights: `(..., 1 + rows * columns)`, the class token first, which is left out.
        grid: rows and columns.
        size: height and width of the picture.

    Returns:
        `(..., height, width)`, largest value 1.
    """
    picture = weights[..., 1:].reshape(-1, 1, *grid)
    picture = F.interpolate(picture, size=size, mode="bilinear", align_corners=False)
    picture = picture / picture.amax((-2, -1), keepdim=True).clamp(min=1e-12)
    return picture.reshape(*weights.shape[:-1], *size)

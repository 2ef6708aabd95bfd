"""Swin transformer (Liu et al., ICCV 2021, table 7: Swin-T).

Attention stays in windows, which every second block shifts. Stochastic depth is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....models.errors import InstanceError
from .attention import feed_forward, join_heads, split_heads
from .example import Example, image_classifier

WINDOW = 7
"""Side of a window in patches."""


def build(*, batch: int, image: int, blocks: tuple[int, ...], width: int, heads: tuple[int, ...]) -> Example:
    """Return the network with so many blocks and heads in its stages; widths double, sides halve."""
    step = 4 * WINDOW * 2 ** (len(blocks) - 1)
    if image % step:
        raise InstanceError(f"option image: found {image}, expected a multiple of {step}")
    return image_classifier(SwinTransformer(image // 4, blocks, width, heads), batch, image)


class SwinTransformer(nn.Module):
    """Patches of 4 x 4, stages with merging of patches between them, classifier of 1000 classes."""

    def __init__(self, side: int, blocks: tuple[int, ...], width: int, heads: tuple[int, ...]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        layers: list[nn.Module] = [nn.LayerNorm(width)]
        for stage, (count, n) in enumerate(zip(blocks, heads, strict=True)):
            if stage:
                layers.append(Merge(width))
                side, width = side // 2, 2 * width
            shifts = [WINDOW // 2 if i % 2 and side > WINDOW else 0 for i in range(count)]
            layers += [Block(side, width, n, shift) for shift in shifts]
        self.layers = nn.Sequential(*layers, nn.LayerNorm(width))
        self.classifier = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        return self.classifier(self.layers(self.patches(images).permute(0, 2, 3, 1)).mean((1, 2)))


class Merge(nn.Module):
    """Four neighbouring patches become one of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return batch, rows / 2, columns / 2, 2 * width."""
        corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(corners, dim=-1)))


class Block(nn.Module):
    """Attention in windows and feed-forward layers, each after a normalization."""

    def __init__(self, side: int, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = WindowAttention(side, width, heads, shift)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = feed_forward(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, rows, columns, width."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WindowAttention(nn.Module):
    """Attention among the patches of a window, with a bias for each relative position.

    A shift rolls the image first, so windows straddle those of the block before; patches that the roll makes
    neighbours do not see each other (section 3.2).
    """

    def __init__(self, side: int, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
        self.register_buffer("offsets", _offsets())
        self.register_buffer("mask", _mask(side, shift) if shift else None)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, rows, columns, width."""
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        windows = _partition(x)
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(windows).chunk(3, dim=-1))
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias[self.offsets.flatten()].unflatten(0, self.offsets.shape).permute(2, 0, 1)
        scores = scores + bias
        if self.mask is not None:
            scores = (scores.unflatten(0, (-1, len(self.mask))) + self.mask[:, None]).flatten(0, 1)
        y = self.projection(join_heads(torch.softmax(scores, dim=-1) @ v))
        y = _unpartition(y, x.shape[1])
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


def _partition(x: Tensor) -> Tensor:
    """Return windows of all images, patches of a window, width."""
    cut = x.unflatten(2, (-1, WINDOW)).unflatten(1, (-1, WINDOW))
    return cut.transpose(2, 3).flatten(0, 2).flatten(1, 2)


def _unpartition(windows: Tensor, side: int) -> Tensor:
    """Undo `_partition`."""
    n = side // WINDOW
    cut = windows.unflatten(1, (WINDOW, WINDOW)).unflatten(0, (-1, n, n))
    return cut.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def _offsets() -> Tensor:
    """Return, for each pair of patches of a window, the row of the table of biases."""
    place = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
    difference = place[:, :, None] - place[:, None, :] + WINDOW - 1
    return difference[0] * (2 * WINDOW - 1) + difference[1]


def _mask(side: int, shift: int) -> Tensor:
    """Return, for each window and pair of its patches, 0 or what keeps them apart."""
    line = torch.arange(side)
    region = (line >= side - WINDOW).int() + (line >= side - shift).int()
    regions = _partition((3 * region[:, None] + region)[None, :, :, None])[:, :, 0]
    return torch.where(regions[:, :, None] == regions[:, None, :], 0.0, -100.0)

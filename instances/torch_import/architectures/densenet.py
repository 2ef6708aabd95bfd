"""Densely connected network (Huang, Liu, van der Maaten and Weinberger, CVPR 2017, table 1: DenseNet-121)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .example import Example, image_classifier


def build(*, batch: int, image: int, blocks: tuple[int, ...], growth: int) -> Example:
    """Return the network with so many layers in its dense blocks, `growth` features from each."""
    return image_classifier(DenseNet(blocks, growth), batch, image)


class DenseNet(nn.Module):
    """Stem, dense blocks with transitions that halve features and sides, classifier of 1000 classes."""

    def __init__(self, blocks: tuple[int, ...], growth: int) -> None:
        super().__init__()
        channels = 2 * growth
        layers: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, 2, padding=3, bias=False),
            *(nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)),
        ]
        for i, count in enumerate(blocks):
            layers.append(DenseBlock(channels, growth, count))
            channels += count * growth
            if i < len(blocks) - 1:
                half = nn.Conv2d(channels, channels // 2, 1, bias=False)
                layers += [nn.BatchNorm2d(channels), nn.ReLU(), half, nn.AvgPool2d(2, 2)]
                channels //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU())
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        return self.classifier(self.features(images).mean((2, 3)))


class DenseBlock(nn.Module):
    """Layers that each read the features of all before them."""

    def __init__(self, channels: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layer(channels + i * growth, growth) for i in range(count))

    def forward(self, x: Tensor) -> Tensor:
        """Return the input and what every layer adds, concatenated."""
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        return torch.cat(features, dim=1)


def _layer(channels: int, growth: int) -> nn.Sequential:
    """Return normalization, ReLU and convolution, 1x1 to four times the growth and then 3x3."""
    return nn.Sequential(
        *(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False)),
        *(nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)),
    )

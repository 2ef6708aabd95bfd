"""EfficientNet-B0 (Tan and Le, ICML 2019, table 1): inverted bottlenecks with squeeze and excitation.

Dropout before the classifier is kept; stochastic depth is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import Dropout
from .example import Example, image_classifier

STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
"""Expansion, kernel, stride, channels and blocks of each stage."""


def build(*, batch: int, image: int) -> Example:
    """Return the network."""
    return image_classifier(EfficientNet(), batch, image)


class EfficientNet(nn.Module):
    """Stem, seven stages, head, classifier of 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*_conv_norm(3, 32, 3, 2), nn.SiLU()]
        channels = 32
        for expansion, kernel, stride, width, count in STAGES:
            for i in range(count):
                layers.append(InvertedBottleneck(channels, width, expansion, kernel, 1 if i else stride))
                channels = width
        self.features = nn.Sequential(*layers, *_conv_norm(channels, 1280, 1, 1), nn.SiLU())
        self.dropout = Dropout(0.2)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        return self.classifier(self.dropout(self.features(images).mean((2, 3))))


class InvertedBottleneck(nn.Module):
    """1x1 convolution that widens, one per channel, squeeze and excitation, 1x1 that narrows."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expand = nn.Sequential(*([*_conv_norm(inputs, width, 1, 1), nn.SiLU()] if expansion > 1 else []))
        self.depthwise = nn.Sequential(*_conv_norm(width, width, kernel, stride, groups=width), nn.SiLU())
        self.excite = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inputs // 4, 1), nn.SiLU()),
            nn.Conv2d(inputs // 4, width, 1),
        )
        self.project = nn.Sequential(*_conv_norm(width, outputs, 1, 1))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the narrowed features, with the input added where the shapes agree."""
        wide = self.depthwise(self.expand(x))
        narrow = self.project(wide * torch.sigmoid(self.excite(wide)))
        return narrow + x if self.residual else narrow


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]

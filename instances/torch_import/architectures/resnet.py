"""Residual networks (He, Zhang, Ren and Sun, CVPR 2016, table 1).

The stride of a bottleneck block is on its 3x3 convolution, as most implementations have it since
(facebookarchive/fb.resnet.torch, 2016), not on the first 1x1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .example import Example, image_classifier


def build(*, batch: int, image: int, blocks: tuple[int, int, int, int], bottleneck: bool) -> Example:
    """Return the network with so many blocks in its four stages."""
    return image_classifier(ResNet(blocks, bottleneck), batch, image)


class ResNet(nn.Module):
    """Stem, four stages of residual blocks, average, classifier of 1000 classes."""

    def __init__(self, blocks: tuple[int, int, int, int], bottleneck: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
        layers: list[nn.Module] = []
        channels, growth = 64, 4 if bottleneck else 1
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            for block in range(count):
                stride = 2 if stage and not block else 1
                layers.append(Block(channels, width, width * growth, stride, bottleneck))
                channels = width * growth
        self.blocks = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        return self.classifier(self.blocks(self.stem(images)).mean((2, 3)))


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 and 1x1; the input is added before the last ReLU."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            layers = [
                *_conv_norm(inputs, width, 1, 1),
                nn.ReLU(),
                *_conv_norm(width, width, 3, stride),
                nn.ReLU(),
                *_conv_norm(width, outputs, 1, 1),
            ]
        else:
            layers = [
                *_conv_norm(inputs, width, 3, stride),
                nn.ReLU(),
                *_conv_norm(width, outputs, 3, 1),
            ]
        self.branch = nn.Sequential(*layers)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv_norm(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return branch plus shortcut."""
        return torch.relu(self.branch(x) + self.shortcut(x))


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]

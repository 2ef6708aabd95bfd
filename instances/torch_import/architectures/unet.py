"""U-Net (Ronneberger, Fischer and Brox, MICCAI 2015, figure 1).

Convolutions are not padded, so every level loses a border and the features of the way down are cropped
before they join the way up. Dropout at the bottom is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....models.errors import InstanceError
from .example import Example

DEPTH = 4
"""Number of levels below the first: each halves the sides of the image."""


def build(*, batch: int, image: int) -> Example:
    """Return the network for gray images of `image` pixels a side, and two classes for each pixel."""
    return Example(
        module=UNet(),
        inputs={"images": torch.zeros(batch, 1, image, image)},
        targets={"labels": torch.zeros(batch, *2 * [_side_of_output(image)], dtype=torch.int64)},
        loss=nn.functional.cross_entropy,
    )


def _side_of_output(image: int) -> int:
    """Return the side of the map of classes; every pair of convolutions takes 4 pixels."""
    side = image
    for _ in range(DEPTH):
        side -= 4
        if side % 2 or side <= 0:
            raise InstanceError(f"option image: found {image}, expected 16 k + 12 with k >= 11, such as 572")
        side //= 2
    for _ in range(DEPTH):
        side = 2 * (side - 4)
    if side <= 4:
        raise InstanceError(f"option image: found {image}, expected 16 k + 12 with k >= 11, such as 572")
    return side - 4


class UNet(nn.Module):
    """Way down, bottom, way up, classes."""

    def __init__(self) -> None:
        super().__init__()
        widths = [64 * 2**i for i in range(DEPTH + 1)]
        self.down = nn.ModuleList(_pair(a, b) for a, b in zip((1, *widths), widths, strict=False))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.up = nn.ModuleList(_pair(2 * w, w) for w in reversed(widths[:-1]))
        self.classes = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the classes of each pixel that is left."""
        skips = []
        for i, pair in enumerate(self.down):
            x = pair(x)
            if i < DEPTH:
                skips.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for widen, pair in zip(self.widen, self.up, strict=True):
            x = widen(x)
            x = pair(torch.cat((_crop(skips.pop(), x.shape[-1]), x), dim=1))
        return self.classes(x)


def _crop(x: Tensor, side: int) -> Tensor:
    border = (x.shape[-1] - side) // 2
    return x[:, :, border : border + side, border : border + side]


def _pair(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU())

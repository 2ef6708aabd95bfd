"""Vision transformer (Dosovitskiy et al., ICLR 2021, table 1: ViT-B/16). Dropout is left out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....models.errors import InstanceError
from .attention import Block
from .example import Example, image_classifier


def build(*, batch: int, image: int, layers: int, width: int, heads: int, patch: int, flash: bool) -> Example:
    """Return the network for images of `image` pixels a side, cut into patches."""
    if image % patch:
        raise InstanceError(f"option image: found {image}, expected a multiple of {patch}")
    return image_classifier(VisionTransformer(image, layers, width, heads, patch, flash), batch, image)


class VisionTransformer(nn.Module):
    """Patches and a class token with learned positions, blocks, classifier of the class token."""

    def __init__(self, image: int, layers: int, width: int, heads: int, patch: int, flash: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, flash=flash, epsilon=1e-6) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.classifier = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.positions
        return self.classifier(self.norm(self.blocks(x))[:, 0])

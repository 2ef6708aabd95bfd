"""U-Net: a contracting and an expanding path, joined by long skip connections.

Ronneberger, Fischer, Brox, "U-Net: convolutional networks for biomedical image segmentation", MICCAI 2015;
with padding, so that sides halve and double exactly.
"""

from __future__ import annotations

from ...models.graph import Graph
from .network import Feature, NetworkBuilder


def unet(*, depth: int, channels: int, image: int, batch: int) -> Graph:
    """Return a U-Net with `depth` levels above the bottom, for images of a side of at least `image`.

    The side is rounded up to a multiple of ``2**depth``; `channels` is the width of the top level.
    """
    net = NetworkBuilder(batch)
    side = -(-image >> depth) << depth
    x = net.input("input", 3, side)
    skips: list[Feature] = []
    for level in range(depth):
        x = _two_convolutions(net, f"down{level}", x, channels << level)
        skips.append(x)
        x = net.pool(f"down{level}.pool", "MaxPool", x, 2)
    x = _two_convolutions(net, "bottom", x, channels << depth)
    for level in reversed(range(depth)):
        x = net.upsample(f"up{level}.upsample", x, channels << level)
        x = net.concat(f"up{level}.concat", (skips[level], x))
        x = _two_convolutions(net, f"up{level}", x, channels << level)
    net.conv("output", x, 2, 1)
    return net.graph()


def _two_convolutions(net: NetworkBuilder, name: str, x: Feature, channels: int) -> Feature:
    return net.conv(f"{name}.conv1", net.conv(f"{name}.conv0", x, channels, 3), channels, 3)

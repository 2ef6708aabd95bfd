"""Networks that run on microcontrollers: one image or spectrogram, 8-bit values, each layer one op.

MobileNetV2 (Sandler et al., CVPR 2018, table 2); MobileNetV1 (Howard et al., 2017, table 1), at a quarter of
its width on 96 x 96 grey values the person detection of TensorFlow Lite Micro; DS-CNN (Zhang et al., Hello
Edge, 2017), the keyword spotting of MLPerf Tiny; and ``wide-kernels``, inverted residuals with kernels of 3
to 7 and expansions of 3 to 6, such as searches for these devices find (MCUNet, Lin et al., NeurIPS 2020): the
blocks are ours.
"""

from __future__ import annotations

from ...models.graph import Graph
from .network import Feature, NetworkBuilder

MOBILENET_V2 = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
    *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
)
"""Expansion, channels, blocks, stride of the first, kernel."""
WIDE_KERNELS = (
    *((1, 8, 1, 1, 3), (3, 16, 2, 2, 7), (5, 24, 3, 2, 5), (4, 40, 3, 2, 7)),
    *((5, 48, 2, 1, 5), (6, 96, 3, 2, 7), (6, 160, 1, 1, 5)),
)
MOBILENET_V1 = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Channels and stride of each pair of a depthwise and a pointwise convolution."""
NETWORKS = ("mobilenet-v2", "wide-kernels", "mobilenet-v1", "ds-cnn")


def tinyml(*, network: str, width: int, image: int, classes: int) -> Graph:
    """Return a network at so many percent of its width; ``ds-cnn`` has no image and no width."""
    net = NetworkBuilder(1, value_bytes=1)
    net.dtype = "int8"
    if network == "ds-cnn":
        x = _keywords(net)
    elif network == "mobilenet-v1":
        x = net.conv("stem", net.input("image", 1, image), _scaled(32, width), 3, 2)
        for k, (channels, stride) in enumerate(MOBILENET_V1):
            x = net.conv(f"pw{k}", net.depthwise(f"dw{k}", x, 3, stride), _scaled(channels, width), 1)
    else:
        blocks = MOBILENET_V2 if network == "mobilenet-v2" else WIDE_KERNELS
        x = net.conv("stem", net.input("image", 3, image), _scaled(blocks[0][1] * 2, width), 3, 2)
        for k, (expansion, channels, many, first, kernel) in enumerate(blocks):
            for b in range(many):
                stride = first if not b else 1
                x = _inverted(net, f"{k}.{b}", x, expansion, _scaled(channels, width), stride, kernel)
        if network == "mobilenet-v2":
            x = net.conv("head", x, _scaled(1280, max(100, width)), 1)
    net.layer("softmax", "Softmax", (net.classifier(x, classes).tensor,), classes)
    return net.graph()


def _inverted(
    net: NetworkBuilder, name: str, x: Feature, expansion: int, channels: int, stride: int, kernel: int
) -> Feature:
    """Add an inverted residual: expand, convolve by channel, project; and the sum if the shape stays."""
    y = x if expansion == 1 else net.conv(f"{name}.expand", x, expansion * x.channels, 1)
    y = net.conv(f"{name}.project", net.depthwise(f"{name}.depthwise", y, kernel, stride), channels, 1)
    return net.add(f"{name}.add", (x, y)) if stride == 1 and channels == x.channels else y


def _keywords(net: NetworkBuilder) -> Feature:
    """Add DS-CNN: 49 x 10 features, then four blocks of 25 x 5 x 64."""
    size = 25 * 5 * 64
    t = net.layer(
        "stem", "Conv", (net.tensor("spectrogram", 49 * 10, "input"),), size, multiply_adds=40 * size
    )
    for k in range(4):
        t = net.layer(f"dw{k}", "DepthwiseConv", (t,), size, multiply_adds=9 * size)
        t = net.layer(f"pw{k}", "Conv", (t,), size, multiply_adds=64 * size)
    return Feature(t, 64, 1)


def _scaled(channels: int, width: int) -> int:
    """Return channels at a width in percent as a multiple of 8, as MobileNetV2's code rounds them."""
    exact = channels * width
    found = max(8, (exact + 400) // 800 * 8)
    return found + 8 if 10 * found * 100 < 9 * exact else found

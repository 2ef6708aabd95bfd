"""Builds image networks: features with channels and sides, mostly 32-bit values, roofline durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .builder import Builder

VALUE_BYTES = 4
"""Bytes of a value of a tensor: 32-bit floating point numbers."""


class Feature(NamedTuple):
    """A tensor of ``batch * channels * side * side`` values."""

    tensor: int
    channels: int
    side: int


class NetworkBuilder(Builder):
    """A `Builder` whose layers take and return features."""

    def __init__(self, batch: int, *, value_bytes: int = VALUE_BYTES) -> None:
        super().__init__()
        self.batch, self.value_bytes = batch, value_bytes

    def input(self, name: str, channels: int, side: int) -> Feature:
        """Add an input image."""
        return Feature(self.tensor(name, self._bytes(channels, side), "input"), channels, side)

    def conv(self, name: str, x: Feature, channels: int, kernel: int, stride: int = 1) -> Feature:
        """Add a convolution with normalization and activation."""
        return self._windowed(name, "Conv", x, channels, kernel, stride, x.channels)

    def depthwise(self, name: str, x: Feature, kernel: int, stride: int = 1) -> Feature:
        """Add a convolution of each channel by itself."""
        return self._windowed(name, "DepthwiseConv", x, x.channels, kernel, stride, 1)

    def pool(self, name: str, kind: str, x: Feature, stride: int) -> Feature:
        """Add a pooling of windows of 3 by 3."""
        side = -(-x.side // stride)
        out = self.layer(
            name,
            kind,
            (x.tensor,),
            self._bytes(x.channels, side),
            multiply_adds=9 * self.batch * x.channels * side * side,
        )
        return Feature(out, x.channels, side)

    def upsample(self, name: str, x: Feature, channels: int) -> Feature:
        """Add a transposed convolution that doubles the sides."""
        side = 2 * x.side
        out = self.layer(
            name,
            "ConvTranspose",
            (x.tensor,),
            self._bytes(channels, side),
            weight=self.value_bytes * 4 * x.channels * channels,
            multiply_adds=self.batch * side * side * channels * x.channels,
        )
        return Feature(out, channels, side)

    def add(self, name: str, terms: Sequence[Feature]) -> Feature:
        """Add the sum of features of one shape."""
        _, channels, side = terms[0]
        out = self.layer(name, "Add", [x.tensor for x in terms], self._bytes(channels, side))
        return Feature(out, channels, side)

    def concat(self, name: str, parts: Sequence[Feature]) -> Feature:
        """Add the concatenation of features of one side."""
        channels, side = sum(x.channels for x in parts), parts[0].side
        out = self.layer(name, "Concat", [x.tensor for x in parts], self._bytes(channels, side))
        return Feature(out, channels, side)

    def classifier(self, x: Feature, classes: int) -> Feature:
        """Add a global average and a linear layer."""
        mean = self.layer("mean", "AveragePool", (x.tensor,), self._bytes(x.channels, 1))
        out = self.layer(
            "logits",
            "Linear",
            (mean,),
            self._bytes(classes, 1),
            weight=self.value_bytes * x.channels * classes,
            multiply_adds=self.batch * x.channels * classes,
        )
        return Feature(out, classes, 1)

    def _windowed(
        self,
        name: str,
        kind: str,
        x: Feature,
        channels: int,
        kernel: int,
        stride: int,
        summed: int,
    ) -> Feature:
        side = -(-x.side // stride)
        window = kernel * kernel * summed
        out = self.layer(
            name,
            kind,
            (x.tensor,),
            self._bytes(channels, side),
            weight=self.value_bytes * channels * window,
            multiply_adds=self.batch * channels * side * side * window,
        )
        return Feature(out, channels, side)

    def _bytes(self, channels: int, side: int) -> int:
        return self.value_bytes * self.batch * channels * side * side

"""U-Net of a denoising diffusion model (Ho, Jain and Abbeel, NeurIPS 2020, appendix B, CIFAR-10).

Residual blocks that add an embedding of the time step, self-attention at 16 x 16, skip connections from
every block of the way down. It is trained to predict the noise in its input, by the mean square of the
error. Dropout is left out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ....models.errors import InstanceError
from .attention import attend
from .example import Example

WIDTH = 128
"""Channels of the first resolution; the others have multiples of them."""
MULTIPLES = (1, 2, 2, 2)
"""Channels of each resolution, in units of the width."""
BLOCKS = 2
"""Residual blocks of each resolution, one more on the way up."""
ATTENTION = 16
"""Side at which every block is followed by attention."""


def build(*, batch: int, image: int) -> Example:
    """Return the network for colour images of `image` pixels a side."""
    step = 2 ** (len(MULTIPLES) - 1)
    if image % step:
        raise InstanceError(f"option image: found {image}, expected a multiple of {step}")
    return Example(
        module=DiffusionUNet(image),
        inputs={
            "images": torch.zeros(batch, 3, image, image),
            "times": torch.zeros(batch, dtype=torch.int64),
        },
        targets={"noise": torch.zeros(batch, 3, image, image)},
        loss=nn.functional.mse_loss,
    )


class DiffusionUNet(nn.Module):
    """Time embedding, way down, middle, way up, predicted noise."""

    def __init__(self, image: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, 4 * WIDTH))
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, side, skips = WIDTH, image, [WIDTH]
        for level, multiple in enumerate(MULTIPLES):
            for _ in range(BLOCKS):
                self.down.append(Stage(channels, WIDTH * multiple, side))
                channels = WIDTH * multiple
                skips.append(channels)
            if level < len(MULTIPLES) - 1:
                self.down.append(nn.Conv2d(channels, channels, 3, 2, padding=1))
                skips.append(channels)
                side //= 2
        around = [Residual(channels, channels) for _ in range(2)]
        self.middle = nn.ModuleList((around[0], Attention(channels), around[1]))
        for level, multiple in reversed(list(enumerate(MULTIPLES))):
            for _ in range(BLOCKS + 1):
                self.up.append(Stage(channels + skips.pop(), WIDTH * multiple, side))
                channels = WIDTH * multiple
            if level:
                widen = nn.Conv2d(channels, channels, 3, padding=1)
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2), widen))
                side *= 2
        self.last = nn.Sequential(_norm(channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))

    def forward(self, images: Tensor, times: Tensor) -> Tensor:
        """Return the noise in the images at their time steps."""
        time = nn.functional.silu(self.time(_waves(times, WIDTH).to(images.dtype)))
        x = self.first(images)
        skips = [x]
        for layer in self.down:
            x = layer(x, time) if isinstance(layer, Stage) else layer(x)
            skips.append(x)
        before, attention, after = self.middle
        x = after(attention(before(x, time)), time)
        for layer in self.up:
            x = layer(torch.cat((x, skips.pop()), dim=1), time) if isinstance(layer, Stage) else layer(x)
        return self.last(x)


class Stage(nn.Module):
    """A residual block, with attention behind it at the resolution that has it."""

    def __init__(self, inputs: int, outputs: int, side: int) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs)
        self.attention = Attention(outputs) if side == ATTENTION else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the features of the block."""
        return self.attention(self.residual(x, time))


class Residual(nn.Module):
    """Two convolutions, each after normalization and SiLU, with the time added between them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.start = nn.Sequential(_norm(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(4 * WIDTH, outputs)
        self.end = nn.Sequential(_norm(outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the features of the block."""
        return self.end(self.start(x) + self.time(time)[:, :, None, None]) + self.shortcut(x)


class Attention(nn.Module):
    """Self-attention of one head among all pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.projection = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: batch, channels, rows, columns."""
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        y = attend(q, k, v, causal=False, flash=False)
        return x + self.projection(y.transpose(1, 2).unflatten(2, x.shape[2:]))


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(32, channels, eps=1e-6)


def _waves(times: Tensor, width: int) -> Tensor:
    """Return sines and cosines of the time steps at `width` / 2 frequencies."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half, device=times.device) * (-math.log(10000) / (half - 1)))
    angles = times[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=1)

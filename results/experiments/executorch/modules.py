"""Small modules for the table, each with an input: what people run on small devices. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn


class Perceptron(nn.Module):
    """Three layers with a shortcut over each."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return as many features as come in."""
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


class Inception(nn.Module):
    """Three blocks of four convolutions beside each other, whose results are joined."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, 8 * (k + 1), 2 * k + 1, padding=k) for k in range(4))
            for _ in range(3)
        )
        self.joins = nn.ModuleList(nn.Conv2d(80, width, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return as many channels as come in."""
        for branches, join in zip(self.branches, self.joins, strict=True):
            x = x + join(torch.cat([torch.relu(branch(x)) for branch in branches], 1))
        return x


class Pyramid(nn.Module):
    """Features of four resolutions, brought together from the coarsest to the finest, and a head on each."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 32, 64, 128)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise(widths))
        self.side = nn.ModuleList(nn.Conv2d(width, 24, 1) for width in widths[1:])
        self.head = nn.ModuleList(nn.Conv2d(24, 6, 3, padding=1) for _ in widths[1:])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return six channels at each resolution."""
        levels = []
        for layer in self.down:
            x = torch.relu(layer(x))
            levels.append(x)
        merged = [side(level) for side, level in zip(self.side, levels, strict=True)]
        for k in range(len(merged) - 2, -1, -1):
            merged[k] = merged[k] + nn.functional.interpolate(merged[k + 1], scale_factor=2.0)
        return [head(level) for head, level in zip(self.head, merged, strict=True)]


class Experts(nn.Module):
    """Eight experts that all see the input, and a gate: the program computes every hidden tensor first."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 8)
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(8))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return as many features as come in."""
        weights = torch.softmax(self.gate(x), -1)
        hidden = [torch.relu(up(x)) for up in self.up]
        outputs = [down(y) for down, y in zip(self.down, hidden, strict=True)]
        return torch.stack(outputs, -1).mul(weights.unsqueeze(-2)).sum(-1)


class SearchedCells(nn.Module):
    """Cells as architecture search makes them: six nodes, each of two earlier ones, joined at the end."""

    SOURCES = (
        ((0, 1), (0, 1), (1, 2), (2, 3), (0, 4), (3, 5)),
        ((0, 1), (1, 2), (0, 2), (3, 1), (4, 2), (5, 3)),
    )

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in range(12))
            for _ in self.SOURCES
        )
        self.joins = nn.ModuleList(nn.Conv2d(6 * width, width, 1) for _ in self.SOURCES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return as many channels as come in."""
        before = x
        for sources, convolutions, join in zip(self.SOURCES, self.convolutions, self.joins, strict=True):
            states = [before, x]
            for k, (a, b) in enumerate(sources):
                first, second = convolutions[2 * k], convolutions[2 * k + 1]
                states.append(torch.relu(first(states[a])) + torch.relu(second(states[b])))
            before, x = x, join(torch.cat(states[2:], 1))
        return x


def encoder() -> nn.Module:
    """Return two layers of a transformer's encoder."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (Perceptron, (8, 256)),
    "inception": (Inception, (1, 16, 32, 32)),
    "pyramid": (Pyramid, (1, 3, 128, 128)),
    "experts": (Experts, (16, 64)),
    "cells": (SearchedCells, (1, 24, 32, 32)),
    "encoder": (encoder, (1, 32, 64)),
}
"""Name -> what makes the module, and the shape of its input."""

"""Modules for the tests of adapters of eager torch: blocks that may be checkpointed, and their data."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn, checkpoint = torch.nn, torch.utils.checkpoint.checkpoint


class Regions(nn.Module):  # type: ignore[misc, name-defined]
    """Blocks one after the other, each a region if there is a policy, and a head."""

    def __init__(self, blocks: list[Any], head: Any, policy: Any = None) -> None:
        super().__init__()
        self.blocks, self.head, self.policy = nn.ModuleList(blocks), head, policy

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            if self.policy is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=False, context_fn=self.policy)
        return self.head(x)


class Residual(nn.Module):  # type: ignore[misc, name-defined]
    """A perceptron behind a norm, added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        return x + self.hidden(self.norm(x))


def residual() -> tuple[list[Any], Any, Any, Any]:
    return [Residual(16) for _ in range(3)], nn.Linear(16, 5), torch.randn(90, 16), torch.arange(90) % 5


def convolutional() -> tuple[list[Any], Any, Any, Any]:
    """Statistics of batches, and random numbers, which must not be computed twice."""
    blocks = [
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.Dropout(0.3), nn.Conv2d(8, 3, 3)),
        nn.Sequential(nn.Conv2d(3, 6, 3), nn.Dropout(0.5), nn.Tanh(), nn.Conv2d(6, 3, 3), nn.Sigmoid()),
    ]
    head = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    return blocks, head, torch.randn(4, 3, 16, 16), torch.arange(4)

"""What a family of networks returns: a module, and tensors to run and train it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A module with one batch of data.

    Parameters
    ----------
    module
        The network, a ``torch.nn.Module``.
    inputs
        Name -> tensor, its arguments in their order.
    targets
        Name -> tensor, what the loss compares its output with.
    loss
        ``loss(output, *targets)`` returns a tensor of one element.
    """

    module: Any
    inputs: Mapping[str, Any]
    targets: Mapping[str, Any]
    loss: Callable[..., Any]


def image_classifier(module: Any, batch: int, image: int) -> Example:
    """Return a network for square colour images of `image` pixels a side and its cross-entropy."""
    import torch

    return Example(
        module=module,
        inputs={"images": torch.zeros(batch, 3, image, image)},
        targets={"labels": torch.zeros(batch, dtype=torch.int64)},
        loss=torch.nn.functional.cross_entropy,
    )


def language_model(module: Any, batch: int, seq: int) -> Example:
    """Return a network that predicts a token at every position, and its cross-entropy over all of them."""
    import torch

    def loss(scores: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())

    return Example(
        module=module,
        inputs={"tokens": torch.zeros(batch, seq, dtype=torch.int64)},
        targets={"labels": torch.zeros(batch, seq, dtype=torch.int64)},
        loss=loss,
    )

"""Layered random graphs."""

from __future__ import annotations

import random

from ...models.graph import Graph
from .builder import from_successors


def layered(
    *,
    layers: int,
    width: int,
    seed: int,
    degree: int,
    data: str,
    sizes: str,
    largest: int,
    keep: bool,
) -> Graph:
    """Return `layers` layers of `width` ops; each op reads one to `degree` ops of the layer before.

    An op that none would read gets one random reader. The reference order goes layer by layer.
    """
    rng = random.Random(seed)
    successors: list[list[int]] = [[] for _ in range(layers * width)]
    for layer in range(1, layers):
        previous = range((layer - 1) * width, layer * width)
        current = range(layer * width, (layer + 1) * width)
        for op in current:
            for source in rng.sample(previous, rng.randint(1, min(degree, width))):
                successors[source].append(op)
        for source in previous:
            if not successors[source]:
                successors[source].append(rng.choice(current))
    return from_successors(successors, rng, data=data, sizes=sizes, largest=largest, keep=keep)

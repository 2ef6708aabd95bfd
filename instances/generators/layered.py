"""Layered random graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

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
    successors = layer_arcs([width] * layers, degree, rng)
    return from_successors(successors, rng, data=data, sizes=sizes, largest=largest, keep=keep)


def layer_arcs(widths: Sequence[int], degree: int, rng: random.Random) -> list[list[int]]:
    """Return the successors of each op of layers of these widths, one to `degree` arcs into each op."""
    successors: list[list[int]] = [[] for _ in range(sum(widths))]
    ends = list(accumulate(widths))
    for layer in range(1, len(widths)):
        previous = range(ends[layer - 1] - widths[layer - 1], ends[layer - 1])
        current = range(ends[layer - 1], ends[layer])
        for op in current:
            for source in rng.sample(previous, rng.randint(1, min(degree, len(previous)))):
                successors[source].append(op)
        for source in previous:
            if not successors[source]:
                successors[source].append(rng.choice(current))
    return successors

"""Layered networks with transfers, as those that HIOS is simulated on."""

from __future__ import annotations

import random

from ...models.graph import Graph, Op, Tensor
from .layered import layer_arcs

PARTS = 1000
"""Of a device, that shares are stated in."""

BYTES_PER_NS = 8
"""Of a tensor for each ns of its reader: 0.8 of that one's time at 10 GB/s."""


def hios(*, n: int, layers: int, degree: int, seed: int) -> Graph:
    """Return `n` ops in layers, each of which reads one to `degree` tensors of the layer before.

    Each edge has a tensor of its own. Durations are uniform on 0.1 to 4 ms, shares on 0.6 to 1, and a tensor
    has 8 bytes for each ns of its reader: these ranges are those of the generator in the public code of HIOS
    (Kundu and Shu, 2023); how it draws edges we did not see.
    """
    rng = random.Random(seed)
    layers = min(layers, n)
    successors = layer_arcs([n // layers + (k < n % layers) for k in range(layers)], degree, rng)
    durations = [rng.randint(100_000, 4_000_000) for _ in range(n)]
    shares = [rng.randint(PARTS * 6 // 10, PARTS) for _ in range(n)]
    edges = [(i, j) for i, some in enumerate(successors) for j in sorted(some)]
    tensors = [Tensor(name=f"op{i} to op{j}", nbytes=BYTES_PER_NS * durations[j]) for i, j in edges]
    ops = [
        Op(
            name=f"op{i}",
            duration_ns=durations[i],
            share=shares[i],
            reads=tuple(t for t, (_, b) in enumerate(edges) if b == i),
            writes=tuple(t for t, (a, _) in enumerate(edges) if a == i),
        )
        for i in range(n)
    ]
    return Graph(name="", tensors=tuple(tensors), ops=tuple(ops))

"""Random prices, and graphs whose updates do not read what they overwrite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import lowtide as lt
from lowtide.formulations.placement.bounds.prices import MemoryPrices, priced
from lowtide.formulations.placement.bounds.samples import SampleData


def any_prices(data: SampleData, seed: int) -> MemoryPrices:
    """Return random prices at random samples."""
    rng = np.random.default_rng(seed)
    around = 2 * len(data.duration)
    instants = {int(c) for c in rng.integers(0, around, size=int(rng.integers(1, 9)))}
    samples = sorted(instants | (set() if data.periodic else {-1}))
    epochs = len(data.epochs(samples))
    rate = max(cap.rate for cap in data.caps)

    def some(count: int) -> list[float]:
        return [float(p) for p in rng.choice([0, 0.2, 1], size=count) * rng.random(count) * 10**9 / rate]

    room = [some(len(samples)) if t.capacity is not None else [0.0] * len(samples) for t in data.outer]
    return priced(data, samples, some(len(samples)), room, [some(epochs) for _ in data.caps])


def overwritten(graph: lt.Graph, seed: int) -> lt.Graph:
    """Return the graph with some updates that do not read what they overwrite."""
    rng = np.random.default_rng(seed)
    ops = []
    for op in graph.ops:
        both = set(op.reads) & set(op.writes)
        pure = both if rng.random() < 0.5 else set()
        ops.append(replace(op, reads=tuple(t for t in op.reads if t not in pure)))
    return replace(graph, ops=tuple(ops))

"""Sharding by the letter of the rules: every choice, each moment of time, infinite costs out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import lowtide as lt

INFINITE = 10**18


def cost(network: lt.CostNetwork, choice: Sequence[int]) -> int | None:
    """Return what a choice costs; None if it is forbidden or exceeds the limit at some time."""
    numbers = [network.costs[v][s] for v, s in enumerate(choice)]
    for (u, v), row in zip(network.edges, network.matrices, strict=True):
        numbers.append(row[choice[u] * len(network.costs[v]) + choice[v]])
    if max(numbers) >= INFINITE:
        return None
    for time in range(max(end for _, end in network.intervals)):
        alive = [v for v, (start, end) in enumerate(network.intervals) if start <= time < end]
        if sum(network.usages[v][choice[v]] for v in alive) > network.limit:
            return None
    return sum(numbers)


def choices(network: lt.CostNetwork) -> list[tuple[int, ...]]:
    """Return all choices of a strategy for each node."""
    return list(product(*(range(len(row)) for row in network.costs)))


def least_cost(network: lt.CostNetwork) -> int | None:
    """Return the least cost of all choices; None if none is allowed."""
    return min((c for x in choices(network) if (c := cost(network, x)) is not None), default=None)


def random_network(seed: int, *, most_nodes: int = 6, tree: bool = False) -> lt.CostNetwork:
    """Return a network of few nodes with up to three strategies, some costs infinite."""
    rng = Random(f"network {seed}")
    n = rng.randint(2, most_nodes)
    counts = [rng.randint(1, 3) for _ in range(n)]
    spans = [sorted(rng.sample(range(9), 2)) if rng.random() < 0.9 else [3, 3] for _ in range(n)]
    usages = tuple(tuple(rng.randint(0, 9) for _ in range(k)) for k in counts)
    if tree:
        edges = tuple((rng.randrange(v), v) for v in range(1, n))
    else:
        edges = tuple(tuple(rng.sample(range(n), 2)) for _ in range(rng.randint(0, 2 * n)))  # type: ignore[misc]

    def number() -> int:
        return INFINITE * rng.randint(1, 9) if rng.random() < 0.15 else rng.randint(0, 20)

    return lt.CostNetwork(
        intervals=tuple((a, b) for a, b in spans),
        costs=tuple(tuple(number() for _ in range(k)) for k in counts),
        usages=usages,
        edges=edges,
        matrices=tuple(tuple(number() for _ in range(counts[u] * counts[v])) for u, v in edges),
        limit=10**6 if tree else rng.randint(4, 5 * n),
    )

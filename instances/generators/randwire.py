"""Randomly wired networks: Watts-Strogatz graphs, oriented by index.

Xie, Kirillov, Girshick, He, "Exploring randomly wired neural networks for image recognition", ICCV
2019. There the best networks have k = 4 and p = 0.75. An op of ours stands for one of their nodes
(weighted sum, activation, separable convolution, normalization).
"""

from __future__ import annotations

import random

from ...models.graph import Graph
from .builder import Builder, draw_bytes


def randwire(*, n: int, seed: int, k: int, p: float, stages: int, sizes: str, largest: int) -> Graph:
    """Return `stages` random graphs of `n` ops, each between an input op and an output op.

    Nodes of a stage without predecessors read the tensor of the input op, nodes without successors
    are read by the output op, which feeds the next stage. Sizes halve from stage to stage (twice the
    channels, a quarter of the pixels); the last stage has those of `sizes`.
    """
    rng = random.Random(seed)
    builder = Builder()

    def add(name: str, reads: list[int], stage: int) -> int:
        size = draw_bytes(rng, sizes, largest) << (stages - 1 - stage)
        t = builder.tensor(name, size)
        builder.op(name, "", reads, (t,))
        return t

    carried: list[int] = []
    for stage in range(stages):
        prefix = f"s{stage}." if stages > 1 else ""
        source = add(f"{prefix}input", carried, stage)
        edges = watts_strogatz(n, k, p, rng)
        predecessors: list[list[int]] = [[] for _ in range(n)]
        for a, b in edges:
            predecessors[b].append(a)
        outs: list[int] = []
        for node in range(n):
            reads = [outs[a] for a in predecessors[node]]
            outs.append(add(f"{prefix}node{node}", reads or [source], stage))
        tails = sorted(set(range(n)) - {a for a, _ in edges})
        carried = [add(f"{prefix}output", [outs[a] for a in tails], stage)]
    return builder.graph()


def watts_strogatz(n: int, k: int, p: float, rng: random.Random) -> list[tuple[int, int]]:
    """Return the edges ``(a, b)``, a < b, of a Watts-Strogatz graph in ascending order.

    Each of `n` nodes on a ring is joined to its `k` (even) nearest neighbours; then, going round the
    ring once for each distance, the far end of each edge moves with probability `p` to a random node
    that is neither the near end nor joined to it already. The number of edges is ``n * k / 2``.
    """
    neighbours: list[set[int]] = [set() for _ in range(n)]

    def join(a: int, b: int) -> None:
        neighbours[a].add(b)
        neighbours[b].add(a)

    for distance in range(1, k // 2 + 1):
        for node in range(n):
            join(node, (node + distance) % n)
    for distance in range(1, k // 2 + 1):
        for node in range(n):
            far = (node + distance) % n
            if rng.random() < p and far in neighbours[node] and len(neighbours[node]) < n - 1:
                other = node
                while other == node or other in neighbours[node]:
                    other = rng.randrange(n)
                neighbours[node].discard(far)
                neighbours[far].discard(node)
                join(node, other)
    return sorted((a, b) for a in range(n) for b in neighbours[a] if a < b)

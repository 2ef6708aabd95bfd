"""Questions of stages under contention, and shares of ops."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import lowtide as lt
from tests.strategies import random_graph


def question(seed: int, ops: int = 5) -> lt.Streams:
    rng = Random(seed)
    graph = random_graph(rng, max_ops=ops, max_duration=9)
    return lt.Streams(
        with_shares(graph, rng),
        contention=rng.choice(("fluid", "half-serial")),
        parts=4,
        sync_ns=rng.choice((0, 0, 1, 3)),
        memory=rng.choice((None, rng.randint(0, 14))),
        streams=rng.choice((None, None, 1, 2)),
    )


def with_shares(graph: lt.Graph, rng: Random) -> lt.Graph:
    ops = (replace(op, modes=(), inplace=(), share=rng.choice((None, 1, 2, 3, 4))) for op in graph.ops)
    return replace(graph, ops=tuple(ops))

"""Small random graphs of the shapes that special methods know, with tensors of every kind on top.

Trees, chains, series-parallel graphs, disjoint paths between two ends, independent ops, anything: with one
tensor for each edge or one for each op, and then tensors that are initial, final, both, written and never
read, never accessed, of no bytes, overwritten or updated in place; workspaces; modes; both accountings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import lowtide as lt

Shape = tuple[int, list[tuple[int, int]]]


def decorated_graph(rng: Random, *, modes: bool = False) -> lt.Graph:
    """Return a graph of up to 8 ops; with `modes` some ops have two."""
    n, edges = rng.choice(SHAPES)(rng)
    tensors: list[lt.Tensor] = []
    reads: list[list[int]] = [[] for _ in range(n)]
    writes: list[list[int]] = [[] for _ in range(n)]
    often = rng.choice((0, 0.1, 0.3, 0.6))

    def tensor(**flags: Any) -> int:
        nbytes = 0 if rng.random() < 0.15 else rng.randint(1, 6)
        tensors.append(lt.Tensor(name=str(len(tensors)), nbytes=nbytes, **flags))
        return len(tensors) - 1

    def chance(of: float = 1.0) -> bool:
        return rng.random() < often * of

    if rng.random() < 0.5:
        for u, v in edges:
            t = tensor()
            writes[u].append(t)
            reads[v].append(t)
    else:
        for u in range(n):
            readers = [v for a, v in edges if a == u]
            if readers:
                t = tensor()
                writes[u].append(t)
                for v in readers:
                    reads[v].append(t)
    for v in range(n):
        if chance() and not any(b == v for _, b in edges):
            reads[v].append(tensor(initial=True, final=rng.random() < 0.15))
        if chance() and not any(a == v for a, _ in edges):
            writes[v].append(tensor(final=rng.random() < 0.6))
    for _ in range(2):
        if chance():
            t = tensor(initial=True, final=rng.random() < 0.2)
            for v in rng.sample(range(n), min(n, rng.choice((1, 1, 2)))):
                reads[v].append(t)
    if chance():
        writes[rng.randrange(n)].append(tensor())  # dead
    if chance():
        writes[rng.randrange(n)].append(tensor(final=True))
    for flags in ({"initial": True}, {"initial": True, "final": True}, {}):
        if chance():
            tensor(**flags)  # never accessed
    if chance(0.5):
        writes[rng.randrange(n)].append(tensor(initial=True))  # overwritten
    if chance(0.5):
        t, i = tensor(initial=True, final=rng.random() < 0.5), rng.randrange(n)
        reads[i].append(t)
        writes[i].append(t)
    ops = []
    for i in range(n):
        op: dict[str, Any] = {"workspace": rng.randint(0, 5) if chance() else 0}
        if modes and rng.random() < 0.3:
            op["modes"] = tuple(lt.Mode(duration_ns=k + 1, workspace=rng.randint(0, 5)) for k in range(2))
        ops.append(lt.Op(name=str(i), reads=tuple(reads[i]), writes=tuple(writes[i]), **op))
    accounting = rng.choice((lt.Accounting.COEXIST, lt.Accounting.REPLACE))
    return lt.Graph(name="decorated", tensors=tuple(tensors), ops=tuple(ops), accounting=accounting)


def with_least_workspace(graph: lt.Graph) -> lt.Graph:
    """Return the graph with one mode for each op: its least workspace."""
    ops = (replace(op, workspace=op.least_workspace, modes=()) for op in graph.ops)
    return replace(graph, ops=tuple(ops))


def _in_tree(rng: Random) -> Shape:
    n = rng.randint(1, 6)
    return n, [(i, rng.randint(i + 1, n - 1)) for i in range(n - 1)]


def _out_tree(rng: Random) -> Shape:
    n = rng.randint(1, 6)
    return n, [(rng.randint(0, i - 1), i) for i in range(1, n)]


def _chain(rng: Random) -> Shape:
    n = rng.randint(1, 6)
    return n, [(i, i + 1) for i in range(n - 1)]


def _independent(rng: Random) -> Shape:
    return rng.randint(1, 5), []


def _any(rng: Random) -> Shape:
    n = rng.randint(1, 6)
    return n, [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35]


def _paths(rng: Random) -> Shape:
    """Disjoint paths, often with an op before all and an op after all."""
    source, n, edges, ends = rng.random() < 0.7, 0, [], []
    n += source
    for _ in range(rng.randint(1, 3)):
        before = 0 if source else None
        for _ in range(rng.randint(1, 2)):
            if before is not None:
                edges.append((before, n))
            before = n
            n += 1
        ends.append(n - 1)
    if rng.random() < 0.7:
        edges += [(v, n) for v in ends]
        n += 1
    return n, edges


def _series_parallel(rng: Random) -> Shape:
    """Edges doubled and divided; then numbered along a random topological order."""
    n, edges = 2, {(0, 1)}
    while n < 6 and rng.random() < 0.8:
        u, v = rng.choice(sorted(edges))
        if rng.random() < 0.5:
            edges.discard((u, v))
        edges |= {(u, n), (n, v)}
        n += 1
    place: dict[int, int] = {}
    while len(place) < n:
        left = [v for v in range(n) if v not in place]
        ready = [v for v in left if not any((u, v) in edges for u in left)]
        place[rng.choice(ready)] = len(place)
    return n, sorted((place[u], place[v]) for u, v in edges)


SHAPES: tuple[Callable[[Random], Shape], ...] = (
    _in_tree,
    _out_tree,
    _chain,
    _independent,
    _any,
    _paths,
    _series_parallel,
)

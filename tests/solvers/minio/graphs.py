"""Random graphs with shared, changed, initial and final tensors, and questions of least I/O about them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.graph import Graph, Op, Tensor


def random_graph(rng: Random, n: int, most: int = 2) -> Graph:
    """Return a graph of n ops; an op in four changes a tensor in place, a tensor in five has no bytes."""
    tensors: list[Tensor] = []
    for k in range(rng.randint(0, 2)):
        tensors.append(
            Tensor(name=f"x{k}", nbytes=rng.randint(0, most), initial=True, final=rng.random() < 0.3)
        )
    ops = []
    for i in range(n):
        known = range(len(tensors))
        reads = rng.sample(known, min(len(known), rng.choice((0, 1, 1, 2))))
        writes = [len(tensors)]
        tensors.append(Tensor(name=f"t{i}", nbytes=rng.randint(0 if rng.random() < 0.2 else 1, most)))
        if rng.random() < 0.2:
            tensors[-1] = Tensor(name=f"t{i}", nbytes=tensors[-1].nbytes, final=True)
        if reads and rng.random() < 0.25:
            writes.append(reads[0])
        after = (rng.randrange(i),) if i and rng.random() < 0.2 else ()
        space = rng.choice((0, 0, 0, 1))
        ops.append(Op(name=f"o{i}", reads=tuple(reads), writes=tuple(writes), after=after, workspace=space))
    return Graph(name="random", tensors=tuple(tensors), ops=tuple(ops))


def least_need(graph: Graph) -> int:
    """Return the most bytes that one op alone needs."""
    return max(
        sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) + op.workspace for op in graph.ops
    )


def questions(count: int, label: str, n: int = 8, most: int = 3) -> Iterator[tuple[Random, lt.MinIO]]:
    """Yield questions of all kinds, with the memory that one op needs, or a byte more."""
    for seed in range(count):
        rng = Random(f"{label} {seed}")
        graph = random_graph(rng, rng.randint(4, n), most)
        stored = rng.random() < 0.5
        least = least_need(graph)
        if not stored:
            least = max(least, sequential_memory(graph).initial_bytes)
        memory = least + rng.choice((0, 0, 0, 1))
        kind = rng.choice(("writes", "traffic"))
        yield rng, lt.MinIO(graph, memory, whole=rng.random() < 0.5, count=kind, stored=stored)


def valid_order(rng: Random, graph: Graph) -> tuple[int, ...]:
    """Return a random order that the verifier accepts."""
    from lowtide.models.derived.precedence import precedence

    before, done, order = precedence(graph).predecessors, set[int](), list[int]()
    while len(order) < len(graph.ops):
        ready = [i for i in range(len(graph.ops)) if i not in done and done.issuperset(before[i])]
        order.append(rng.choice(ready))
        done.add(order[-1])
    return tuple(order)

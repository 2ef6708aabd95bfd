"""Random trees and questions of least I/O, and every order of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import lowtide as lt
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.solvers.minio.rules import tree_data


def random_tree(rng: Random, n: int, most: int = 4, reach: int = 3) -> Graph:
    """Return an in-tree with workspaces; some files of nothing, some in two tensors."""
    parent = [rng.randint(i + 1, min(n - 1, i + reach)) for i in range(n - 1)]
    tensors, writes, reads = [], [[] for _ in range(n)], [[] for _ in range(n)]  # type: ignore[var-annotated]
    for i, above in enumerate(parent):
        for _ in range(rng.choice((1, 1, 1, 2))):
            writes[i].append(len(tensors))
            reads[above].append(len(tensors))
            tensors.append(Tensor(name=f"t{len(tensors)}", nbytes=rng.randint(0, most)))
    ops = [
        Op(name=f"o{i}", reads=tuple(reads[i]), writes=tuple(writes[i]), workspace=rng.choice((0, 0, most)))
        for i in range(n)
    ]
    return Graph(name="tree", tensors=tuple(tensors), ops=tuple(ops))


def tight(rng: Random, graph: Graph, whole: bool) -> lt.MinIO:
    """Return a problem with memory from what one op needs to the least peak of an order."""
    peak = lt.solve(lt.Peak(graph), "liu").objective
    assert peak is not None
    least = max(tree_data(lt.MinIO(graph, memory=peak), "test").need)
    return lt.MinIO(graph, memory=rng.randint(least, max(least, peak - 1)), whole=whole)


def small_problems(count: int, whole: bool, n: int = 6, most: int = 3) -> Iterator[tuple[Random, lt.MinIO]]:
    for seed in range(count):
        rng = Random(f"minio {seed} {whole}")
        yield rng, tight(rng, random_tree(rng, rng.randint(3, n), most), whole)


def orders_of(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Yield every order in which ops follow what writes their reads."""
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    for order in permutations(range(len(graph.ops))):
        place = {i: k for k, i in enumerate(order)}
        if all(place[writer[t]] < place[i] for i, op in enumerate(graph.ops) for t in op.reads):
            yield order

"""Edges that something else stands for: a list of pairs, a graph with more ``after``, a plan.

They come without a flow; `lowtide.solvers.parallel.edges.with_flow` looks for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import index

from ..errors import InstanceError
from ..graph import Graph, Op
from ..plan import Plan

Edge = tuple[int, int]


def edges_of(graph: Graph, item: object) -> tuple[Edge, ...]:
    """Return pairs of ops of a graph, the first of which must end before the second starts.

    Parameters
    ----------
    item
        Pairs of op indices; the same graph with more ``after``, in any order, as `apply_edges` makes it; or a
        plan that runs every op once: what it runs one after another is to stay so.

    Raises
    ------
    InstanceError
        If it is none of these.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.Graph(name="two", tensors=(), ops=(lt.Op(name="a"), lt.Op(name="b")))
    >>> edges_of(graph, [(1, 0)]), edges_of(graph, lt.Plan.from_order(graph, (1, 0)))
    (((1, 0),), ((1, 0),))
    """
    if isinstance(item, Plan):
        return _edges_of_plan(graph, item)
    if isinstance(item, Graph):
        return _edges_of_graph(graph, item)
    if not isinstance(item, Iterable) or isinstance(item, str | bytes):
        raise InstanceError(
            f"found {type(item).__name__}, expected Edges, pairs of ops, a graph with more edges, or a plan"
        )
    pairs = []
    for pair in item:
        try:
            i, j = pair
            pairs.append((index(i), index(j)))
        except (TypeError, ValueError):
            raise InstanceError(f"edges: found {pair!r}, expected a pair of op indices") from None
    return tuple(dict.fromkeys(pairs))


def _edges_of_plan(graph: Graph, plan: Plan) -> tuple[Edge, ...]:
    """Return the pairs of runs with no third one between them."""
    runs = {run.op: run for run in plan.runs}
    n = len(graph.ops)
    if sorted(run.op for run in plan.runs) != list(range(n)):
        raise InstanceError(f"plan: found {len(plan.runs)} runs, expected one of each of the {n} ops")
    by_end = sorted(range(n), key=lambda i: (runs[i].end, i))
    edges: list[Edge] = []
    for j in sorted(range(n), key=lambda j: (runs[j].start, j)):
        latest = -1  # start of the last run that has ended: what ended before it stands before it
        for i in reversed([i for i in by_end if runs[i].end <= runs[j].start]):
            if runs[i].end <= latest:
                break
            latest = max(latest, runs[i].start)
            edges.append((i, j))
    return tuple(sorted(edges))


def _edges_of_graph(graph: Graph, other: Graph) -> tuple[Edge, ...]:
    """Return the ``after`` that the other graph has more of."""
    if other.tensors != graph.tensors or other.accounting is not graph.accounting:
        raise InstanceError(f"graph {other.name!r}: found other tensors than those of {graph.name!r}")
    places: dict[Op, list[int]] = {}
    for i, op in enumerate(graph.ops):
        places.setdefault(_key(op), []).append(i)
    number = []
    for k, op in enumerate(other.ops):
        twins = places.get(_key(op), [])
        if len(twins) != 1:
            what = "no such op" if not twins else f"{len(twins)} such ops"
            raise InstanceError(f"graph {other.name!r}, op {k} {op.name!r}: found {what} in {graph.name!r}")
        number.append(twins[0])
    if len(set(number)) < len(graph.ops):
        raise InstanceError(
            f"graph {other.name!r}: found {len(number)} ops, expected the {len(graph.ops)} of {graph.name!r}"
        )
    return tuple(
        (number[a], number[k])
        for k, op in enumerate(other.ops)
        for a in op.after
        if number[a] not in graph.ops[number[k]].after
    )


def _key(op: Op) -> Op:
    """Return what an op is but for its ``after``."""
    return replace(op, after=())

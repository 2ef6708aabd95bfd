"""Methods of `minio` that evict by a rule, in a given order; and what all methods of it begin with.

Option ``order``: ``postorder-io`` (default), ``postorder``, ``liu``, ``rec-expand``, ``full-rec-expand`` or
``reference``, see `lowtide.solvers.minio.orders`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...formulations.minio.data import MinIOData
from ...models.derived.memory import sequential_memory
from ...models.problems.minio import MinIO
from ..context import Context, Outcome
from ..trees.task_tree import task_tree
from .bounds import least_sum, packed_cuts, subtree_bounds
from .evictions import evict
from .orders import ORDERS
from .waiting import TreeCut

BOUND = "least peaks of subtrees"
"""The kind of the bound."""

LARGEST_PACKED = 10_000
"""Nodes up to which cuts of subtrees are packed."""


def tree_data(problem: MinIO, method: str) -> MinIOData:
    """Return the numbers of a tree.

    Raises
    ------
    UsageError
        If the graph is no in-tree with a datum for each edge.
    """
    graph = problem.graph
    tree = task_tree(problem, method)
    files = []
    for t, some in enumerate(sequential_memory(graph).accessors):
        if graph.tensors[t].nbytes and len(some) == 2:
            files.append((some[0], graph.tensors[t].nbytes, t))
    files.sort()
    return MinIOData(
        memory=problem.memory,
        whole=problem.whole,
        parent=tree.parent,
        need=tree.needed,
        maker=tuple(u for u, _, _ in files),
        size=tuple(size for _, size, _ in files),
        tensor=tuple(t for _, _, t in files),
    )


class Begun(NamedTuple):
    """The numbers of a tree, a bound for the files of each subtree in bytes, and the cuts that prove it."""

    data: MinIOData
    bounds: list[int]
    cuts: list[TreeCut]


def begin(problem: MinIO, context: Context) -> Begun:
    """Return what all methods begin with (computed once, kept with the problem), after raising the bound."""
    begun: Begun | None = problem.__dict__.get("_begun")
    if begun is None:
        data = tree_data(problem, context.method)
        bounds, cuts = subtree_bounds(problem.graph, data, expired=lambda: context.expired), list[TreeCut]()
        if bounds[-1] and data.n <= LARGEST_PACKED:
            context.raise_bound(bounds[-1], kind=BOUND)
            bounds, cuts = packed_cuts(data, expired=lambda: context.expired)
        begun = Begun(data, bounds, cuts)
        if not context.expired:
            problem.__dict__["_begun"] = begun
    least = begun.bounds[-1]
    context.raise_bound(least_sum(begun.data.size, least) if problem.whole else least, kind=BOUND)
    return begun


def order_of(problem: MinIO, data: MinIOData, context: Context) -> tuple[int, ...]:
    """Return the order that option ``order`` names."""
    return ORDERS[context.options["order"]](problem.graph, data, lambda: context.expired)


def solve_by_rule(problem: MinIO, context: Context) -> Outcome:
    """Evict in a given order, by the rule of the method's name."""
    data = begin(problem, context).data
    context.offer(evict(data, order_of(problem, data, context), context.method))
    return Outcome()


def solve_by_order(problem: MinIO, context: Context) -> Outcome:
    """Take the order that the method stands for, evict furthest in the future.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.MinIO(lt.load("gen:intree?n=100&arity=2&largest=100&seed=1"), memory=230)
    >>> [lt.solve(problem, name).objective for name in ("postorder", "opt-min-mem", "full-rec-expand")]
    [239, 220, 195]
    """
    data = begin(problem, context).data
    order = ORDERS[{"postorder": "postorder-io", "opt-min-mem": "liu"}.get(context.method, context.method)]
    context.offer(evict(data, order(problem.graph, data, lambda: context.expired)))
    return Outcome()

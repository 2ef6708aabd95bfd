"""Methods of `minio` that evict by a rule, in a given order; and what all methods of it begin with.

Option ``order``: of trees ``postorder-io`` (default), ``postorder``, ``liu``, ``rec-expand`` or
``full-rec-expand``, see `lowtide.solvers.minio.orders`; of other graphs ``least-peak`` (default), what `auto`
of `peak` finds in half of the time, or ``greedy``, the greedy order of `peak` with the least peak;
``reference``.
"""

from __future__ import annotations

from typing import NamedTuple

from ...formulations.minio.data import GraphData, MinIOData, graph_data
from ...models.derived.memory import sequential_memory
from ...models.errors import UsageError
from ...models.problems.minio import MinIO
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..peak.auto import solve_auto as solve_peak
from ..peak.orders.greedy import greedy_orders
from ..trees.task_tree import task_tree
from .bounds import least_sum, packed_cuts, subtree_bounds
from .evictions import evict
from .orders import ORDERS
from .peaks import counted_graphs, raise_by_cuts
from .waiting import TreeCut

BOUND = "least peaks of subtrees"
"""The kind of the bound."""

SUITED = "suited"
"""The order that suits a tree, or another graph; the default of option ``order``."""

GRAPH_ORDERS = ("greedy", "least-peak")
"""Orders of graphs that are no trees, besides that of the graph."""

LARGEST_PACKED = 10_000
"""Nodes up to which cuts of subtrees are packed."""


def tree_data(problem: MinIO, method: str) -> MinIOData:
    """Return the numbers of a tree.

    Raises
    ------
    UsageError
        If the graph is no in-tree with a datum for each edge, or more than writes count.
    """
    graph = problem.graph
    if problem.count != "writes" or problem.stored:
        found = f"count {problem.count}" if problem.count != "writes" else "stored"
        raise UsageError(
            f"method {method}, graph {graph.name!r}: found {found}, expected the writes of a tree; "
            "auto, states, cpsat-steps, local-search and the rules count all"
        )
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


def is_tree(problem: MinIO) -> bool:
    """Return whether the methods of trees solve the problem."""
    tree: bool | None = problem.__dict__.get("_is_tree")
    if tree is None:
        try:
            tree_data(problem, "")
            tree = True
        except UsageError:
            tree = False
        problem.__dict__["_is_tree"] = tree
    return tree


def values_of(problem: MinIO, context: Context) -> GraphData:
    """Return the numbers of a tree or of any graph (computed once, kept), after raising the bound.

    Raises
    ------
    UsageError
        If the graph overwrites what nobody reads.
    """
    if is_tree(problem):
        return begin(problem, context).data
    data: GraphData | None = problem.__dict__.get("_values")
    if data is None:
        data = problem.__dict__["_values"] = graph_data(problem)
    context.raise_bound(data.fixed, kind="compulsory")
    return data


def begin(problem: MinIO, context: Context) -> Begun:
    """Return what methods of trees begin with (computed once, kept), after raising the bound."""
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


def order_of(problem: MinIO, data: GraphData, context: Context) -> tuple[int, ...]:
    """Return the order that option ``order`` names.

    Raises
    ------
    UsageError
        If it is one of trees, and the graph is none; or one of graphs, and it is a tree.
    """
    name = context.options["order"]
    tree = isinstance(data, MinIOData)
    name = ("postorder-io" if tree else "least-peak") if name == SUITED else name
    if isinstance(data, MinIOData) and name in ORDERS:
        return ORDERS[name](problem.graph, data, lambda: context.expired)
    if name == "reference":
        return tuple(range(data.n))
    if tree or name in ORDERS:
        known = ", ".join(ORDERS) if tree else f"reference, {', '.join(GRAPH_ORDERS)}"
        raise UsageError(f"method {context.method}, option order: found {name}, expected one of {known}")
    graph = counted_graphs(data)[0]
    if name == "greedy" or data.n < 2:
        return min(greedy_orders(graph), key=sequential_memory(graph).peak)
    peak = Peak(graph)
    inner = context.inner(peak, context.remaining() / 2, "least peak: ", options={})
    solve_peak(peak, inner)
    order: tuple[int, ...] = tuple(range(data.n)) if inner.answer is None else inner.answer
    return order


def solve_by_rule(problem: MinIO, context: Context) -> Outcome:
    """Evict in a given order, by the rule of the method's name."""
    data = values_of(problem, context)
    context.offer(evict(data, order_of(problem, data, context), context.method))
    raise_by_cuts(data, context)
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

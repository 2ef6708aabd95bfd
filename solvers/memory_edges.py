"""Edges that bound parallel memory: four heuristics that cut one too large moment after the other.

Loop: find the largest moment by flow; while the flow is above the bound, add an edge u -> v from a *head*
u, an op that holds a live tensor at that moment (or runs), to a *tail* v, an op that gave birth to one (or
runs), and that no path leads from to u. At that moment u has not finished and v has started, so it no
longer occurs. Rules:

* ``min-levels``: least critical path through the new edge: end of u at the earliest plus the longest path
  from v;
* ``respect-order``: in an order whose peak is within the bound, first head and last tail;
* ``max-size``: most bytes held by u and born by v together;
* ``max-min-size``: most of the smaller one of the two.

If the flow's moment itself is within the bound, the flow is too large because of a tensor with several last
accesses: then two of them are put in order, by levels, or as in the order. Every such step takes one last
access away.

**``respect-order`` does not fail.** Edges agree with the order. Were no head before the last tail v in the
order at a moment above the bound, then, when v runs in that order, all tails have started and no head has
finished, so all that is live at the moment is live then: the order's peak were above the bound. Without a
tail only initial tensors are live, which they are before the first op: `MemoryEdges.impossible` has looked
at that.

Source: Marchal, Nagy, Simon and Vivien, "Parallel scheduling of DAGs under memory constraints", IPDPS 2018,
as public code of its authors (memDAG) and later accounts describe it; we did not read the paper. Ours:
levels count an op's duration at u, sizes are of op-level heads and tails, ties go to the lowest index, and
the step for shared tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..formulations import parallel_cut
from ..models.graph import Accounting, Graph
from ..models.memory_edges import Edge, Edges, MemoryEdges, earliest_starts, order_with, shortest_mode
from ..models.parallel_memory import Moment, live_tensors, moment_bytes, most_workspace
from ..models.precedence import precedence
from .context import Context, Outcome
from .parallel_flow import largest_cut

RULES = ("min-levels", "respect-order", "max-size", "max-min-size")
"""The heuristics."""


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """Heads and tails of a moment with the bytes that they hold and gave birth to."""

    heads: dict[int, int]
    tails: dict[int, int]


def solve_min_levels(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by ``min-levels``."""
    return _solve(problem, context, "min-levels")


def solve_respect_order(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by ``respect-order``, with the order that `peak` finds."""
    return _solve(problem, context, "respect-order")


def solve_max_size(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by ``max-size``."""
    return _solve(problem, context, "max-size")


def solve_max_min_size(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by ``max-min-size``."""
    return _solve(problem, context, "max-min-size")


def _solve(problem: MemoryEdges, context: Context, rule: str) -> Outcome:
    raise_path_bound(problem, context)
    order: Sequence[int] = ()
    if rule == "respect-order":
        found = order_within(problem, context)
        if isinstance(found, Outcome):
            return found
        order = found
    return offer_rule(problem, context, rule, order)


def raise_path_bound(problem: MemoryEdges, context: Context) -> None:
    """Raise the bound to the critical path without further edges."""
    starts = earliest_starts(problem.graph, ())
    ends = (s + shortest_mode(problem.graph, i)[0] for i, s in enumerate(starts))
    context.raise_bound(max(ends, default=0), "exact", kind="critical path")


def order_within(problem: MemoryEdges, context: Context) -> tuple[int, ...] | Outcome:
    """Return an order whose sequential peak is within the bound, or that there is none, or none was found.

    The modes with the most workspace count, since a runtime may take any.
    """
    from dataclasses import replace

    from ..models.problem import Peak
    from .solve import solve

    graph = problem.graph
    heaviest = tuple(
        replace(op, workspace=most_workspace(graph, i)[0], modes=()) for i, op in enumerate(graph.ops)
    )
    peak = solve(
        Peak(replace(graph, ops=heaviest)),
        time_limit=None if context.time_limit is None else max(0.1, context.remaining() / 2),
        seed=context.seed,
        threads=context.threads,
    )
    if peak.objective is not None and peak.plan is not None and peak.objective <= problem.bound:
        return peak.plan.order
    if peak.bound is not None and peak.bound > problem.bound:
        said = f"one op at a time needs at least {peak.bound} bytes, above the bound {problem.bound}"
        return Outcome(infeasible=True, detail=said)
    return Outcome(reason="time", detail="problem peak found no order within the bound")


def offer_rule(problem: MemoryEdges, context: Context, rule: str, order: Sequence[int]) -> Outcome:
    """Add edges by a rule and offer them; `order` is that of ``respect-order``."""
    found = edges_by_rule(problem.graph, problem.bound, rule, order, lambda: context.expired)
    if found is None:
        if context.expired:
            return Outcome(reason="time", detail=f"{rule}: the time was up before the bound was met")
        return Outcome(detail=f"{rule}: found no further edge without a cycle")
    context.offer(found)
    return Outcome()


def edges_by_rule(
    graph: Graph,
    bound: int,
    rule: str,
    order: Sequence[int] = (),
    expired: Callable[[], bool] = lambda: False,
) -> Edges | None:
    """Return edges after which the flow is within the bound; None if the rule fails or the time is up.

    Parameters
    ----------
    graph, bound
        As in `lowtide.models.memory_edges.MemoryEdges`.
    rule
        One of `RULES`.
    order
        Of ``respect-order``: its peak is within the bound.
    expired
        Whether the time is up.
    """
    rank = {i: k for k, i in enumerate(order)}
    after = parallel_cut.descendants_with(graph)
    edges: list[Edge] = []
    while not expired():
        network = parallel_cut.build(graph, edges, after)
        cut = largest_cut(network)
        if cut.flow.value <= bound:
            return Edges(edges=tuple(edges), flow=cut.flow)
        if rule == "respect-order":
            first = {i: -rank[i] for i in rank}
            last = rank
        else:
            first, last = _levels(graph, edges)
        if moment_bytes(graph, cut.moment) > bound:
            ends = _ends(graph, cut.moment)
            edge = _best_edge(rule, ends, first, last, after)
        else:
            tensor = max(network.shared, key=lambda one: (graph.tensors[one.tensor].nbytes, -one.tensor))
            edge = _order_two(tensor.accessors, first, last)
        if edge is None:
            return None
        edges.append(edge)
        parallel_cut.add_edge(after, *edge)
    return None


def _levels(graph: Graph, edges: Sequence[Edge]) -> tuple[dict[int, int], dict[int, int]]:
    """Return minus the earliest end of each op, and minus the longest path from its start, in ns."""
    duration = [shortest_mode(graph, i)[0] for i in range(len(graph.ops))]
    later: list[list[int]] = [list(some) for some in precedence(graph).successors]
    for i, j in edges:
        later[i].append(j)
    bottom = [0] * len(duration)
    for i in reversed(order_with(graph, edges)):
        bottom[i] = duration[i] + max((bottom[j] for j in later[i]), default=0)
    starts = earliest_starts(graph, edges)
    first = {i: -(s + duration[i]) for i, s in enumerate(starts)}
    return first, {i: -b for i, b in enumerate(bottom)}


def _ends(graph: Graph, moment: Moment) -> _Ends:
    finished = set(moment.finished)
    started = finished | set(moment.running)
    coexist = graph.accounting is Accounting.COEXIST
    live = {t for t in live_tensors(graph, moment) if graph.tensors[t].nbytes}
    heads: dict[int, int] = {}
    tails: dict[int, int] = {}
    born: set[int] = set()
    for i, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes} & live):
            nbytes, tensor = graph.tensors[t].nbytes, graph.tensors[t]
            if t in op.writes and t not in born and not tensor.initial:
                born.add(t)
                tails[i] = tails.get(i, 0) + nbytes
            held = i not in (finished if coexist or t in op.writes else started)
            if held and not tensor.final:
                heads[i] = heads.get(i, 0) + nbytes
    for i in moment.running:
        workspace = most_workspace(graph, i)[0]
        if workspace:
            heads[i] = heads.get(i, 0) + workspace
            tails[i] = tails.get(i, 0) + workspace
    return _Ends(heads=heads, tails=tails)


def _best_edge(
    rule: str, ends: _Ends, first: dict[int, int], last: dict[int, int], after: Sequence[int]
) -> Edge | None:
    """Return the head and the tail of the largest score that close no cycle; None if there is none."""
    if rule in ("min-levels", "respect-order"):
        heads, tails = {u: first[u] for u in ends.heads}, {v: last[v] for v in ends.tails}
    else:
        heads, tails = ends.heads, ends.tails
    smaller = rule == "max-min-size"
    us = sorted(heads, key=lambda u: (-heads[u], u))
    vs = sorted(tails, key=lambda v: (-tails[v], v))
    best: tuple[int, Edge] | None = None
    for u in us:
        for v in vs:
            score = min(heads[u], tails[v]) if smaller else heads[u] + tails[v]
            if best is not None and score <= best[0]:
                break
            if u != v and not after[v] >> u & 1:
                best = (score, (u, v))
                break
    return None if best is None else best[1]


def _order_two(accessors: Sequence[int], first: dict[int, int], last: dict[int, int]) -> Edge:
    """Return two ops without a path between them, in the order of the largest score."""
    pairs = [(u, v) for u in accessors for v in accessors if u != v]
    return max(pairs, key=lambda edge: (first[edge[0]] + last[edge[1]], -edge[0], -edge[1]))

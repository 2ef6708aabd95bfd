"""Edges that bound parallel memory by the rules of `lowtide.solvers.parallel.adding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...formulations.parallel import network as parallel_cut
from ...models.problems.memory_edges import Edges, MemoryEdges, earliest_starts, shortest_mode
from ...models.problems.parallel_memory import most_workspace
from ..context import Context, Outcome
from ..peak.auto import solve_auto as solve_peak
from ..peak.within import Within
from .adding import MOST_OPS, edges_by_rule, nodes_for
from .cases import search
from .methods import GROWING


def solve_by_rule(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by the rule of the method's name; ``respect-order`` has the order that `peak` finds."""
    raise_path_bound(problem, context)
    order: Sequence[int] = ()
    if context.method == "respect-order":
        found = order_within(problem, context)
        if isinstance(found, Outcome):
            return found
        order = found
    return offer_rule(problem, context, context.method, order)


def raise_path_bound(problem: MemoryEdges, context: Context) -> None:
    """Raise the bound to the critical path without further edges."""
    starts = earliest_starts(problem.graph, ())
    ends = (s + shortest_mode(problem.graph, i)[0] for i, s in enumerate(starts))
    context.raise_bound(max(ends, default=0), "exact", kind="critical path")


def order_within(problem: MemoryEdges, context: Context) -> tuple[int, ...] | Outcome:
    """Return an order whose sequential peak is within the bound, or that there is none, or none was found.

    Any such order will do. That of the earliest starts is tried first: edges that agree with it make paths
    longer the least. The modes with the most workspace count, since a runtime may take any.
    """
    graph = problem.graph
    heaviest = tuple(
        replace(op, workspace=most_workspace(graph, i)[0], modes=()) for i, op in enumerate(graph.ops)
    )
    heavy = Within(replace(graph, ops=heaviest), most=problem.bound)
    inner = context.inner(heavy, prefix="order: ", options={})
    starts = earliest_starts(graph, ())
    every = range(len(graph.ops))
    for order in (sorted(every, key=starts.__getitem__), every):
        if heavy.satisfied(inner.offer(order)):
            return tuple(inner.answer)

    def look() -> None:
        if inner.bound is not None and inner.bound > problem.bound:
            said = f"one op at a time needs at least {inner.bound} bytes, above the bound {problem.bound}"
            inner.known.infeasible = Outcome(infeasible=True, detail=said)

    inner.changed = look
    solve_peak(heavy, inner)
    if inner.known.infeasible is not None:
        return inner.known.infeasible
    if inner.incumbent is not None and heavy.satisfied(inner.incumbent):
        return tuple(inner.answer)
    return Outcome(
        reason="time" if context.expired else None, detail="problem peak found no order within the bound"
    )


def with_flow(problem: MemoryEdges, answer: Edges, expired: Callable[[], bool] = lambda: False) -> Edges:
    """Return edges with a flow, if they came without one: the best that a short search finds.

    Raises
    ------
    BuildTimeout
        If the time is up before the network is built.
    """
    if answer.flow.cases:
        return answer
    network = parallel_cut.build(problem.graph, answer.edges, expired=expired)
    effort = nodes_for(len(problem.graph.ops))
    found = search(network, problem.processors, target=problem.bound, most_nodes=effort)
    return replace(answer, flow=found.proof())


def offer_rule(
    problem: MemoryEdges, context: Context, rule: str, order: Sequence[int] = (), *, for_any: bool = False
) -> Outcome:
    """Add edges by a rule and offer them.

    `order` is that of ``respect-order``. With `for_any` the edges are good for any number of processors: more
    of them, found sooner.
    """
    if (count := len(problem.graph.ops)) > MOST_OPS:
        return Outcome(detail=f"{rule}: found {count} ops, expected at most {MOST_OPS}")
    context.prepare(GROWING)
    found = edges_by_rule(
        problem.graph,
        problem.bound,
        rule,
        order,
        processors=None if for_any else problem.processors,
        expired=lambda: context.expired,
        progress=context.progress,
    )
    if found is None:
        if context.expired:
            return Outcome(reason="time", detail=f"{rule}: the time was up before the bound was met")
        return Outcome(detail=f"{rule}: found no further edge without a cycle")
    context.offer(found)
    return Outcome()

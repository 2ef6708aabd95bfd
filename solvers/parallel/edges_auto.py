"""Edges that bound parallel memory: the method that takes heuristics first, then the exact one."""

from __future__ import annotations

from ...formulations.model import BuildTimeout
from ...formulations.parallel import edges_cpsat as formulation
from ...models.flow_proof import FlowProof
from ...models.problems.memory_edges import Edges, MemoryEdges
from ..context import Context, Outcome
from .adding import RULES, nodes_for
from .edges import WATCHED, offer_rule, order_within, raise_path_bound, with_flow
from .edges_cpsat import solve_cpsat


def solve_auto(problem: MemoryEdges, context: Context) -> Outcome:
    """Take the best of the four heuristics, then `cpsat` unless a flow takes too long on the graph."""
    raise_path_bound(problem, context)
    if len(problem.graph.ops) > WATCHED and context.expired:
        return Outcome(reason="time")
    try:
        if _none_needed(problem, context):
            return Outcome(detail="no edges are needed")
    except BuildTimeout:
        return Outcome(reason="time")
    found = order_within(problem, context)
    if isinstance(found, Outcome) and found.infeasible:
        return found
    outcome = Outcome()
    if problem.processors is not None and not isinstance(found, Outcome):
        outcome = offer_rule(problem, context, "respect-order", found, for_any=True)
    for rule in RULES:
        if context.closed:
            return Outcome()
        if context.expired:
            return outcome if outcome.reason == "time" else Outcome(reason="time", detail=outcome.detail)
        if rule == "respect-order" and isinstance(found, Outcome):
            continue
        outcome = offer_rule(problem, context, rule, () if isinstance(found, Outcome) else found)
        context.progress(f"{rule}: {outcome.detail or 'within the bound'}")
    if context.closed or context.expired:
        return outcome
    if nodes_for(len(problem.graph.ops)) and formulation.fits(problem.graph):
        return solve_cpsat(problem, context)
    if context.expired:
        return Outcome(reason="time")
    return Outcome(detail="the heuristics ended without a proof, and the graph is too large for cpsat")


def _none_needed(problem: MemoryEdges, context: Context) -> bool:
    """Offer no edges if no schedule exceeds the bound; return whether that was proved."""
    found = with_flow(
        problem,
        Edges(edges=(), flow=FlowProof(cases=())),
        lambda: len(problem.graph.ops) > WATCHED and context.expired,
    )
    if found.flow.value(problem.processors) > problem.bound:
        return False
    context.offer(found)
    return True

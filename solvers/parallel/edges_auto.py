"""`auto` for `memory-edges`: heuristics and the exact method in turns.

1. No edges, if a flow proves that none are needed.
2. In turns (`lowtide.solvers.portfolio`): the rules that need no order, those that add the fewest edges first
   and one after another, as each keeps the followers of all ops; an order within the bound, or that there is
   none, and the edges that agree with it; `cpsat`, which keeps the conflicts that it knows.
"""

from __future__ import annotations

from ...formulations.model import BuildTimeout
from ...models.flow_proof import FlowProof
from ...models.problems.memory_edges import Edges, MemoryEdges
from ..context import Context, Outcome
from ..parts import Part, per_op
from ..portfolio import run
from .adding import MOST_OPS
from .edges import offer_rule, order_within, raise_path_bound, with_flow
from .edges_cpsat import ConflictRounds, refused

SECONDS = per_op(500)
"""Until CP-SAT has met most conflicts."""

QUICK = ("max-size", "max-min-size", "min-levels")
"""Rules that need no order: the first two add a tenth of the edges, the last one has shorter paths."""


def solve_auto(problem: MemoryEdges, context: Context) -> Outcome:
    """Stop as soon as the bound meets the best edges."""
    raise_path_bound(problem, context)
    exact = Part(name="cpsat", run=ConflictRounds().run, refuses=refused, seconds=SECONDS, pauses=False)
    return run((*PARTS, exact), problem, context)


def _no_edges(problem: MemoryEdges, context: Context) -> Outcome:
    """Offer no edges if no schedule exceeds the bound."""
    try:
        found = with_flow(problem, Edges(edges=(), flow=FlowProof(cases=())), lambda: context.expired)
    except BuildTimeout:
        return Outcome(reason="time")
    if found.flow.value(problem.processors) <= problem.bound:
        context.offer(found)
    return Outcome()


def _by_rules(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges by one rule after another."""
    outcome = Outcome()
    for rule in QUICK:
        if context.closed or context.expired:
            break
        outcome = offer_rule(problem, context, rule)
    return outcome


def _by_order(problem: MemoryEdges, context: Context) -> Outcome:
    """Add edges that agree with an order within the bound; those for any processors are found sooner."""
    order = order_within(problem, context)
    if isinstance(order, Outcome):
        return order
    if problem.processors is not None:
        offer_rule(problem, context, "respect-order", order, for_any=True)
    return offer_rule(problem, context, "respect-order", order)


def _many_ops(problem: MemoryEdges) -> str:
    count = len(problem.graph.ops)
    return f"found {count} ops, expected at most {MOST_OPS}" if count > MOST_OPS else ""


PARTS = (
    Part(name="no edges", run=_no_edges, first=True),
    Part(name="rules", run=_by_rules, refuses=_many_ops),
    Part(name="respect-order", run=_by_order),
)

"""`auto`: what is cheap first, then searches and proofs in turns (`lowtide.solvers.portfolio`).

1. The reference order; a dominant one of a series-parallel graph with a datum for each edge, such as a tree:
   optimal (`lowtide.solvers.peak.series_parallel`), in seconds for 100,000 ops. The largest working set.
2. In turns: greedy orders; the cut bound; local search, and the walk over series-parallel precedences, which
   only find orders; widening search over executed sets (`lowtide.solvers.peak.search.rounds`), which finds
   and proves; probing pairs, which proves; CP-SAT, time-indexed, with the order as hint and both bounds.
"""

from __future__ import annotations

from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .pieces import (
    anneal,
    offer_greedy,
    offer_reference,
    probe,
    raise_by_cuts,
    search,
    seconds_of_model,
    seconds_of_order,
    seconds_of_probing,
    seconds_of_proof,
    seconds_of_search,
    solve_model,
    walk,
)
from .search.state_space import MASK_LIMIT


def solve_auto(problem: Peak, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(PARTS, problem, context)


def _too_large_for_masks(problem: Peak) -> str:
    n = len(problem.graph.ops)
    return f"found {n:,} ops, expected at most {MASK_LIMIT:,}" if n > MASK_LIMIT else ""


_ORDERS, _CLOSURES = ".peak.orders.order_kernel", ".flows.closure_kernel"

PARTS = (
    Part(name="reference order", run=offer_reference, first=True),
    Part(name="greedy orders", run=offer_greedy, seconds=seconds_of_order),
    Part(name="cut", run=raise_by_cuts, seconds=seconds_of_proof),
    Part(name="local search", run=anneal, seconds=seconds_of_search, kernels=(_ORDERS,)),
    Part(name="walk", run=walk, seconds=seconds_of_search, refuses=_too_large_for_masks),
    Part(name="executed sets", run=search, seconds=seconds_of_proof),
    Part(
        name="probing",
        run=probe,
        seconds=seconds_of_probing,
        refuses=_too_large_for_masks,
        kernels=(_CLOSURES,),
    ),
    Part(name="cpsat", run=solve_model, seconds=seconds_of_model, refuses=_too_large_for_masks, pauses=False),
)

"""`auto`: what is cheap first, then searches and proofs in turns (`lowtide.solvers.portfolio`).

1. The reference order; a dominant one of a series-parallel graph with a datum for each edge, such as a tree:
   optimal (`lowtide.solvers.peak.series_parallel`), in seconds for 100,000 ops. Greedy orders, and the
   largest working set.
2. In turns: the cut bound; local search, and the walk over series-parallel precedences, which only find
   orders; widening search over executed sets (`lowtide.solvers.peak.search.rounds`), which finds and proves;
   probing pairs, which proves; CP-SAT, time-indexed, with the order as hint and both bounds.
"""

from __future__ import annotations

from ...formulations.peak import steps_cpsat
from ...formulations.peak.data import peak_data
from ...models.errors import UsageError
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .pieces import anneal, offer_greedy, probe, raise_by_cuts, search, solve_model, walk
from .search.state_space import MASK_LIMIT

TERMS_PER_SECOND = 50_000
"""Of the time-indexed model: built, presolved and searched once."""

PROVED_PER_SECOND, SEARCHED_PER_SECOND = 50_000, 20_000
"""Ops of a graph of which the cut bound or the search over executed sets has something to show in a second,
and those of which the searches for orders have."""

PAIRS_PER_SECOND = 5_000
"""Pairs of ops that are probed: each needs a flow through the graph, here of a hundred ops."""


def solve_auto(problem: Peak, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(PARTS, problem, context)


def _too_large_for_masks(problem: Peak) -> str:
    n = len(problem.graph.ops)
    return f"found {n:,} ops, expected at most {MASK_LIMIT:,}" if n > MASK_LIMIT else ""


def _seconds_of_proof(problem: Peak) -> float:
    return len(problem.graph.ops) / PROVED_PER_SECOND


def _seconds_of_search(problem: Peak) -> float:
    return len(problem.graph.ops) / SEARCHED_PER_SECOND


def _seconds_of_probing(problem: Peak) -> float:
    n = len(problem.graph.ops)
    return n * n / 2 / PAIRS_PER_SECOND * n / 100


def _unstated(problem: Peak) -> str:
    """Say why the model cannot be stated, if it cannot."""
    if words := _too_large_for_masks(problem):  # whose counts alone would take long
        return words
    try:
        peak_data(problem)
    except UsageError as error:
        return str(error)
    return ""


def _seconds_of_model(problem: Peak) -> float:
    return steps_cpsat.size(peak_data(problem)).terms / TERMS_PER_SECOND


_ORDERS, _CLOSURES = ".peak.orders.order_kernel", ".flows.closure_kernel"

PARTS = (
    Part(name="greedy orders", run=offer_greedy, first=True),
    Part(name="cut", run=raise_by_cuts, seconds=_seconds_of_proof),
    Part(name="local search", run=anneal, seconds=_seconds_of_search, kernels=(_ORDERS,)),
    Part(name="walk", run=walk, seconds=_seconds_of_search, refuses=_too_large_for_masks),
    Part(name="executed sets", run=search, seconds=_seconds_of_proof),
    Part(
        name="probing",
        run=probe,
        seconds=_seconds_of_probing,
        refuses=_too_large_for_masks,
        kernels=(_CLOSURES,),
    ),
    Part(name="cpsat", run=solve_model, seconds=_seconds_of_model, refuses=_unstated, pauses=False),
)

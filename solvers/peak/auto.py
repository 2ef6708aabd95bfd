"""`auto`: what is cheap first, then searches and proofs in turns (`lowtide.solvers.portfolio`).

1. The reference order; a dominant one of a series-parallel graph with a datum for each edge, such as a tree:
   optimal (`lowtide.solvers.peak.series_parallel`), in seconds for 100,000 ops. Greedy orders, and the
   largest working set.
2. In turns: the cut bound; local search, and the walk over series-parallel precedences, which only find
   orders; widening search over executed sets (`lowtide.solvers.peak.search.rounds`), which finds and proves;
   probing pairs, which proves; CP-SAT, time-indexed, with the order as hint and both bounds.
"""

from __future__ import annotations

from ...formulations.peak import steps_cpsat as peak_cpsat_steps
from ...formulations.peak.data import peak_data
from ...models.errors import UsageError
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..parts import BOUND, PLAN, Part
from ..portfolio import run
from .bounds.cut_bound import cut_bound, working_set_bound
from .bounds.probing import probing_bound
from .orders.greedy import greedy_orders
from .orders.local_search import improve_by_local_search
from .search.rounds import widen
from .search.state_space import MASK_LIMIT
from .series_parallel.dominant import conclude, series_parallel_order
from .series_parallel.spization import walk_over_divisions

TERMS_PER_SECOND = 50_000
"""Of the time-indexed model: built, presolved and searched once."""

PROVED_PER_SECOND, SEARCHED_PER_SECOND = 50_000, 20_000
"""Ops of a graph of which the cut bound or the search over executed sets has something to show in a second,
and those of which the searches for orders have."""

PAIRS_PER_SECOND = 5_000
"""Pairs of ops that are probed: each needs a flow through the graph, here of a hundred ops."""

WITHOUT_LIMIT = 6
"""Runs of the local search, and divisions of the walk by the hundred, where there is no time limit."""


def solve_auto(problem: Peak, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(PARTS, problem, context)


def _greedy(problem: Peak, context: Context) -> Outcome:
    """Offer the reference order, a dominant one if there is one, else greedy ones; bound by working sets."""
    graph = problem.graph
    context.offer(range(len(graph.ops)))
    if context.expired:
        return Outcome(reason="time")
    if (order := series_parallel_order(graph)) is not None:
        conclude(problem, context, order)
        return Outcome()
    context.raise_bound(working_set_bound(graph), kind="working set")
    for order in greedy_orders(graph):
        if context.closed or context.expired:
            break
        context.offer(order)
    return Outcome()


def _cuts(problem: Peak, context: Context) -> Outcome:
    """Raise the bound by cuts along greedy orders."""
    orders = [context.answer, *greedy_orders(problem.graph)]
    cut_bound(
        problem.graph,
        orders,
        at_least=context.bound or 0,
        expired=lambda: context.expired,
        improved=lambda value: context.raise_bound(value, kind="cut"),
        prepare=context.prepare,
    )
    return Outcome(reason="time" if context.expired else None)


def _local_search(problem: Peak, context: Context) -> Outcome:
    """Anneal from the best order, and now and then from greedy ones."""
    ranked = sorted((problem.evaluate(order), order) for order in greedy_orders(problem.graph))
    runs = WITHOUT_LIMIT if context.time_limit is None else 10**9
    ended = improve_by_local_search(problem, context, runs, [order for _, order in ranked[1:]])
    return Outcome(reason=None if ended else "time")


def _walk(problem: Peak, context: Context) -> Outcome:
    """Walk over series-parallel precedences."""
    rounds = 100 * WITHOUT_LIMIT if context.time_limit is None else 10**9
    walk_over_divisions(problem, context, rounds, lambda: context.expired)
    return Outcome(reason="time" if context.expired else None)


def _probe(problem: Peak, context: Context) -> Outcome:
    """Raise the bound by probing pairs."""
    assert context.bound is not None
    assert context.incumbent is not None
    probing_bound(
        problem.graph,
        at_least=context.bound,
        below=context.incumbent,
        expired=lambda: context.expired,
        improved=lambda value: context.raise_bound(value, kind="probing"),
    )
    return Outcome(reason="time" if context.expired else None)


def _search(problem: Peak, context: Context) -> Outcome:
    """Search executed sets, from both ends of the gap."""
    return widen(problem, context, lambda: context.expired, alone=False)


def _model(problem: Peak, context: Context) -> Outcome:
    """Solve the time-indexed model."""
    from .models import solve_formulation

    return solve_formulation(problem, context, "cpsat")


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
    return peak_cpsat_steps.size(peak_data(problem)).terms / TERMS_PER_SECOND


_ORDERS, _CLOSURES = ".peak.orders.order_kernel", ".flows.closure_kernel"

PARTS = (
    Part(name="greedy orders", run=_greedy, first=True),
    Part(name="cut", run=_cuts, gives=BOUND, seconds=_seconds_of_proof),
    Part(name="local search", run=_local_search, gives=PLAN, seconds=_seconds_of_search, kernels=(_ORDERS,)),
    Part(name="walk", run=_walk, gives=PLAN, seconds=_seconds_of_search, refuses=_too_large_for_masks),
    Part(name="executed sets", run=_search, seconds=_seconds_of_proof),
    Part(
        name="probing",
        run=_probe,
        gives=BOUND,
        seconds=_seconds_of_probing,
        refuses=_too_large_for_masks,
        kernels=(_CLOSURES,),
    ),
    Part(name="cpsat", run=_model, seconds=_seconds_of_model, refuses=_unstated, pauses=False),
)

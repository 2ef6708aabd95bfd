"""`auto`: what is cheap first, and each next method only while the bound is below the incumbent.

1. The reference order; a dominant one of a series-parallel graph with a datum for each edge, such as a tree:
   optimal (`lowtide.solvers.peak.series_parallel`), in seconds for 100,000 ops.
2. Greedy orders, the largest working set, the cut bound: milliseconds, and
   enough for most real networks.
3. Widening search over executed sets (`lowtide.solvers.peak.search.rounds`), until the time is up or
   the memory.
4. CP-SAT, time-indexed, with the order as hint and both bounds, where the memory ran out first and the model
   is not too large. It gets no share of the time by right: on three generated graphs (random wired with
   130 ops twice, series-parallel with 200 once) that the search had left open after 12 seconds, it improved
   neither order nor bound in 12 more.
"""

from __future__ import annotations

from ...formulations.peak import steps_cpsat as peak_cpsat_steps
from ...formulations.peak.data import peak_data
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from .search.rounds import take_first_steps, widen
from .series_parallel.dominant import conclude, series_parallel_order

CPSAT_TERMS = 1_500_000
"""Above so many terms the time-indexed model is left out: the time goes into building and presolving it."""


def solve_auto(problem: Peak, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    context.offer(range(len(problem.graph.ops)))
    if context.expired:
        return Outcome(reason="time")
    order = series_parallel_order(problem.graph)
    if order is not None:
        conclude(problem, context, order)
        return Outcome()
    take_first_steps(problem, context)
    if context.closed:
        return Outcome()
    outcome = widen(problem, context, lambda: context.expired)
    if outcome.reason == "memory" and peak_cpsat_steps.size(peak_data(problem)).terms <= CPSAT_TERMS:
        from .models import solve_formulation

        context.progress("CP-SAT, time-indexed")
        outcome = solve_formulation(problem, context, "cpsat")
    return outcome

"""`auto`: what is cheap first, and each next method only while the bound is below the incumbent.

1. The reference order, greedy orders, the largest working set, the cut bound: milliseconds, and
   enough for most real networks.
2. Widening search over executed sets (`lowtide.solvers.algorithms.peak.widening`), for half of what is left.
3. CP-SAT, time-indexed, with the order as hint and both bounds, where its model is not too large.
"""

from __future__ import annotations

from ..models.problem import Peak
from .algorithms.peak.widening import take_first_steps, widen
from .context import Context, Outcome

CPSAT_OPS = 400
"""Above this many ops the time-indexed model is left out: it grows with their square."""


def solve_auto(problem: Peak, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    if context.options:  # a mistyped one fails now, not only if CP-SAT is reached
        from .engines.cpsat import check_options

        check_options(context.options)
    take_first_steps(problem, context)
    if context.closed:
        return Outcome()
    small = len(problem.graph.ops) <= CPSAT_OPS
    enough = context.elapsed() + context.remaining() / 2 if small else float("inf")
    outcome = widen(problem, context, lambda: context.expired or context.elapsed() > enough)
    if small and not context.closed and not context.expired:
        from .peak_cpsat import solve_steps

        context.progress("CP-SAT, time-indexed")
        outcome = solve_steps(problem, context)
    return outcome

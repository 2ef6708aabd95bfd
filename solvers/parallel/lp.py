"""Largest parallel memory by linear programming: a second way to the value of the flow, by HiGHS.

Any threshold between 0 and 1 on an optimal solution gives an optimal cut, because the constraint matrix is
totally unimodular; this one takes one half. The bound is that of the dual values, rounded to integers and
evaluated in integers (`lowtide.formulations.linear_program.dual_bound`), so it needs no trust in HiGHS.
"""

from __future__ import annotations

from ...formulations.linear_program import dual_bound
from ...formulations.parallel.cut_lp import build
from ...models.problems.parallel_memory import ParallelMemory
from ..context import Context, Outcome
from ..engines.highs_lp import vertex_values
from .flow import LATE, network_in_time


def solve_lp(problem: ParallelMemory, context: Context) -> Outcome:
    """Offer the moment of an optimal solution, and raise the bound to what its dual proves.

    Exact and limited as `lowtide.solvers.parallel.flow.solve_flow`; for more than 10,000 ops prefer that.
    """
    network = network_in_time(problem, context)
    if network is None:
        return Outcome(reason="time", detail=LATE)
    built = build(network)
    program, unit = built.program, built.unit
    found = vertex_values(program, context, context.remaining())
    if found is None:
        return Outcome(reason="time" if context.expired else None, detail="HiGHS found no optimum")
    primal, dual = found
    multipliers = [max(0, round(y)) for y in dual]
    least = dual_bound(program, multipliers, 1)
    context.raise_bound(built.constant - unit * least, "exact", kind="LP")
    moment = network.moment([x > 0.5 for x in primal])
    if problem.processors is None or len(moment.running) <= problem.processors:
        context.offer(moment)
    if context.closed:
        return Outcome()
    return Outcome(detail="the linear program is a relaxation here: shared tensors, processors or rounding")

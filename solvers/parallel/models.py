"""Largest parallel memory by MILP, and the method that takes the flow first: the glue to HiGHS."""

from __future__ import annotations

from ...formulations.parallel import cut_milp
from ...models.problems.parallel_memory import Moment, ParallelMemory
from ..context import Context, Outcome
from ..engines.model import solve_model
from .flow import LATE, network_in_time, offer_cases, solve_flow

_MOST_NODES = 500
"""Of the branch and bound before the MILP: what it does not prove by then it rarely does soon."""


def solve_milp(problem: ParallelMemory, context: Context) -> Outcome:
    """Solve the MILP; option ``solver`` names another solver that Pyomo finds."""
    network = network_in_time(problem, context)
    if network is None:
        return Outcome(reason="time", detail=LATE)
    first = context.answer or Moment(finished=(), running=())
    context.offer(first)
    unit = cut_milp.unit_of(network)
    return solve_model(
        context,
        cut_milp,
        lambda: cut_milp.build(network, problem.processors, first, expired=lambda: context.expired),
        what="the MILP of moments",
        size=cut_milp.size(network),
        decode=cut_milp.decode,
        to_objective=lambda units: -units * unit,
    )


def solve_auto(problem: ParallelMemory, context: Context) -> Outcome:
    """Solve by flow; what it leaves open (shared tensors, a number of processors) by cases, then by MILP."""
    outcome = solve_flow(problem, context)
    if context.closed or outcome.reason is not None or context.expired:
        return outcome
    offer_cases(problem, context, _MOST_NODES)
    if context.closed or context.expired:
        return Outcome(reason="time" if context.expired else None)
    return solve_milp(problem, context)

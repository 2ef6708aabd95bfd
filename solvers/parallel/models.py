"""Largest parallel memory by MILP; and `auto`: the flow, then branching and the MILP in turns."""

from __future__ import annotations

from ...formulations.parallel import cut_milp
from ...models.problems.parallel_memory import Moment, ParallelMemory
from ..context import Context, Outcome
from ..engines.model import solve_model
from ..parts import Part
from ..portfolio import run
from .flow import LATE, network_in_time, offer_at_once, offer_cases, solve_flow

_MOST_NODES = 500
"""Of the branch and bound before the MILP, where there is no time limit: what it does not prove by then it
rarely does soon."""

EVENTS_PER_SECOND, BRANCHED_PER_SECOND = 5_000, 20_000
"""Ops and tensors in whose MILP HiGHS bounds anything within a second: 2,000 to 20,000 (experiment
``auto_against_parts``); and those in which a branch betters the flow."""


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


def _branch(problem: ParallelMemory, context: Context) -> Outcome:
    """Branch as long as there is time; without a limit so far that the MILP comes to its turn."""
    nodes = offer_cases(problem, context, _MOST_NODES if context.time_limit is None else None)
    return Outcome(reason="time" if nodes is None or context.expired else None)


def _events(problem: ParallelMemory) -> int:
    return len(problem.graph.ops) + len(problem.graph.tensors)


def _seconds_of_branch(problem: ParallelMemory) -> float:
    return _events(problem) / BRANCHED_PER_SECOND


def _seconds_of_milp(problem: ParallelMemory) -> float:
    return _events(problem) / EVENTS_PER_SECOND


PARTS = (
    Part(name="flow", run=solve_flow, first=True),
    Part(name="branch", run=_branch, seconds=_seconds_of_branch),
    Part(
        name="milp",
        run=solve_milp,
        seconds=_seconds_of_milp,
        pauses=False,
    ),
)


def solve_auto(problem: ParallelMemory, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent: most often by the flow alone."""
    outcome = run(PARTS, problem, context)
    if context.answer is None:
        offer_at_once(problem, context)
    return outcome

"""Methods of `partition` that solve a model of stages."""

from __future__ import annotations

from typing import Any

from ...formulations.partition import asked_milp, stages_cpsat
from ...formulations.partition.data import partition_data
from ...models.errors import UsageError
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from ..engines.model import solve_question
from .bounds import raise_bound
from .chain import solve_chain
from .program import offer_cuts
from .serial import solve_serial

NO_LATENCY = "the latency has a model for milp alone"


def stated(problem: Partition) -> dict[str, Any]:
    """Return what the models are built of.

    Raises
    ------
    UsageError
        If they do not state the problem.
    """
    if words := refused(problem):
        raise UsageError(f"partition: {words}")
    return {"problem": problem}


def stated_without_latency(problem: Partition) -> dict[str, Any]:
    """Return what the model in CP-SAT is built of; it does not state the latency."""
    if problem.objective == "latency":
        raise UsageError(f"partition: {NO_LATENCY}")
    return stated(problem)


def refused(problem: Partition) -> str:
    """Return why the models do not state a problem; empty if they do."""
    if problem.schedule != "none" or problem.recompute != "none" or problem.replicate > 1:
        return "the model is for one device a stage, without a schedule and recomputation"
    return ""


def _solve(problem: Partition, context: Context, formulation: Any) -> Outcome:
    if words := refused(problem):
        return Outcome(detail=words)
    data = partition_data(problem)
    if problem.objective == "latency":
        solve_serial(problem, context, solve_chain)
    else:
        offer_cuts(problem, data, context)
        raise_bound(problem, context)
    if context.closed:
        return Outcome()
    return solve_question(problem, context, formulation, "the model of stages", hint=context.answer)


def solve_milp(problem: Partition, context: Context) -> Outcome:
    """Solve the MILP, from the cuts of the reference order."""
    return _solve(problem, context, asked_milp)


def solve_cpsat(problem: Partition, context: Context) -> Outcome:
    """Solve the same model with CP-SAT, from the cuts of the reference order."""
    if problem.objective == "latency":
        return Outcome(detail=NO_LATENCY)
    return _solve(problem, context, stages_cpsat)

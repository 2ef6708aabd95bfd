"""Methods of `partition` that solve a model of stages."""

from __future__ import annotations

from typing import Any

from ...formulations.partition import stages_cpsat, stages_milp
from ...formulations.partition.data import partition_data
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from ..engines.model import solve_model
from .bounds import raise_bound
from .program import chain_rows, refusal, run_program


def stated(problem: Partition) -> dict[str, Any]:
    """Return what the models are built of."""
    return {"problem": problem}


def _solve(problem: Partition, context: Context, formulation: Any) -> Outcome:
    if problem.schedule != "none" or problem.recompute != "none" or problem.replicate > 1:
        return Outcome(detail="the model is for one device a stage, without a schedule and recomputation")
    data = partition_data(problem)
    if not refusal(problem, data):
        run_program(problem, data, chain_rows(data), context)
    raise_bound(problem, context)
    if context.closed:
        return Outcome()
    return solve_model(
        context,
        formulation,
        lambda: formulation.build(problem, hint=context.answer, expired=lambda: context.expired),
        what="the model of stages",
        size=formulation.size(problem),
        to_objective=int,
        decode=formulation.decode,
    )


def solve_milp(problem: Partition, context: Context) -> Outcome:
    """Solve the MILP, from the cuts of the reference order."""
    return _solve(problem, context, stages_milp)


def solve_cpsat(problem: Partition, context: Context) -> Outcome:
    """Solve the same model with CP-SAT, from the cuts of the reference order."""
    return _solve(problem, context, stages_cpsat)

"""Models of `makespan` through CP-SAT and HiGHS or another MILP solver, from what lists find."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...formulations.makespan import intervals_cpsat, ticks_milp
from ...formulations.makespan.data import MakespanData, in_ticks, makespan_data
from ...formulations.makespan.intervals_cpsat import CUMULATIVE, RESERVOIR
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from ..engines.model import solve_model
from .lists.method import take_first_steps


def solve_cpsat(problem: Makespan, context: Context) -> Outcome:
    """Solve the model with cumulative memory or as a reservoir; first what option ``start`` says."""
    data = makespan_data(problem)
    outcome = take_first_steps(problem, context, data)
    form = RESERVOIR if context.method == "cpsat-reservoir" else CUMULATIVE
    return outcome or solve_intervals(data, context, form)


def solve_intervals(data: MakespanData, context: Context, form: str = CUMULATIVE) -> Outcome:
    """Run CP-SAT from the incumbent and bound of the context.

    Without an incumbent the horizon is that of `lowtide.formulations.makespan.data`: if there is a schedule,
    the fastest one is no longer.
    """
    return _solve_model(data, context, intervals_cpsat, f"the CP-SAT model, {form} memory", form=form)


def solve_milp(problem: Makespan, context: Context) -> Outcome:
    """Solve the MILP within the makespan of the best list schedule; option ``start`` as for `cpsat`."""
    data = makespan_data(problem)
    outcome = take_first_steps(problem, context, data)
    return outcome or _solve_model(data, context, ticks_milp, "the time-indexed MILP")


def _solve_model(
    data: MakespanData, context: Context, formulation: ModuleType, what: str, **options: Any
) -> Outcome:
    horizon = data.horizon if context.incumbent is None else context.incumbent // data.tick
    formulation.check(data, horizon)
    return solve_model(
        context,
        formulation,
        lambda: formulation.build(
            data,
            horizon=horizon,
            lower=(context.bound or 0) // data.tick,
            hint=None if context.answer is None else in_ticks(data, context.answer),
            expired=lambda: context.expired,
            **options,
        ),
        what=what,
        size=formulation.size(data, horizon),
        decode=formulation.decode,
        to_objective=lambda ticks: ticks * data.tick,
    )

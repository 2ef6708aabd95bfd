"""Models of `makespan` through CP-SAT and HiGHS or another MILP solver, from what lists find."""

from __future__ import annotations

from types import ModuleType

from ...formulations.makespan import intervals_cpsat, ticks_milp
from ...formulations.makespan.data import MakespanData, in_ticks, makespan_data
from ...formulations.makespan.intervals_cpsat import CUMULATIVE, RESERVOIR
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from ..engines.model import solve_model
from .lists.method import take_first_steps


def solve_cumulative(problem: Makespan, context: Context) -> Outcome:
    """Solve the model with cumulative memory.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:randwire?n=12&seed=1"), processors=2)
    >>> lt.solve(problem, "cpsat", threads=1).status
    <Status.OPTIMAL: 'optimal'>
    """
    return _solve(problem, context, CUMULATIVE)


def solve_reservoir(problem: Makespan, context: Context) -> Outcome:
    """Solve the model with the memory as a reservoir; else as `solve_cumulative`."""
    return _solve(problem, context, RESERVOIR)


def _solve(problem: Makespan, context: Context, form: str) -> Outcome:
    """Take bounds and list schedules first (option ``start=lists``), or nothing (``none``)."""
    data = makespan_data(problem)
    outcome = take_first_steps(problem, context, data)
    return outcome or solve_intervals(data, context, form)


def solve_intervals(data: MakespanData, context: Context, form: str = CUMULATIVE) -> Outcome:
    """Run CP-SAT from the incumbent and bound of the context.

    Without an incumbent the horizon is that of `lowtide.formulations.makespan.data`: if there is a schedule,
    the fastest one is no longer.
    """
    return _solve_model(data, context, intervals_cpsat, f"the CP-SAT model, {form} memory", form=form)


def solve_milp(problem: Makespan, context: Context) -> Outcome:
    """Solve the MILP within the makespan of the best list schedule; option ``start`` as for `cpsat`.

    Raises
    ------
    UsageError
        If ops times ticks are too many.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("catalogue:diamond"), processors=2)
    >>> result = lt.solve(problem, "milp", threads=1, options={"start": "none"})
    >>> result.status, result.objective
    (<Status.OPTIMAL: 'optimal'>, 3)
    """
    data = makespan_data(problem)
    outcome = take_first_steps(problem, context, data)
    return outcome or _solve_model(data, context, ticks_milp, "the time-indexed MILP")


def _solve_model(
    data: MakespanData, context: Context, formulation: ModuleType, what: str, **options: str
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
            **options,
        ),
        what=what,
        size=formulation.size(data, horizon),
        decode=formulation.decode,
        to_objective=lambda ticks: ticks * data.tick,
    )

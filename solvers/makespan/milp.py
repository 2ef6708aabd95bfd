"""`milp` for `makespan`: the time-indexed MILP through HiGHS or another solver, from what lists find."""

from __future__ import annotations

import time

from ...formulations.makespan import ticks_milp as makespan_milp
from ...formulations.makespan.data import in_ticks, makespan_data
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from ..engines import pyomo_solver
from ..engines.memory import refuse_if_too_large
from .lists.method import take_first_steps

_BYTES_PER_TERM = 1500


def solve_milp(problem: Makespan, context: Context) -> Outcome:
    """Solve the MILP within the makespan of the best list schedule; option ``start`` as for `cpsat`.

    Option ``solver`` names another solver that Pyomo finds; further options go to the solver.

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
    if outcome is not None:
        return outcome
    what = "the time-indexed MILP"
    horizon = data.horizon if context.incumbent is None else context.incumbent // data.tick
    makespan_milp.check(data, horizon)
    refused = refuse_if_too_large(
        makespan_milp.size(data, horizon), bytes_per_term=_BYTES_PER_TERM, context=context, what=what
    )
    if refused is not None:
        return refused
    began = time.perf_counter()
    built = makespan_milp.build(
        data,
        horizon=horizon,
        lower=(context.bound or 0) // data.tick,
        hint=None if context.answer is None else in_ticks(data, context.answer),
    )
    context.build_seconds = time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")
    return pyomo_solver.solve_milp(
        built.model,
        context,
        decode=lambda value: makespan_milp.decode(built, value),
        to_objective=lambda ticks: ticks * data.tick,
    )

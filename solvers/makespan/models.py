"""`cpsat` and `cpsat-reservoir` for `makespan`: the interval model through CP-SAT, from what lists find."""

from __future__ import annotations

import time

from ...formulations.makespan.data import MakespanData, in_ticks, makespan_data
from ...formulations.makespan.intervals_cpsat import CUMULATIVE, RESERVOIR, build, decode
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from ..engines.cpsat import solve_cpsat
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
    return outcome or solve_model(data, context, form)


def solve_model(data: MakespanData, context: Context, form: str = CUMULATIVE) -> Outcome:
    """Run CP-SAT from the incumbent and bound of the context.

    Without an incumbent the horizon is that of `lowtide.formulations.makespan.data`: if there is a schedule,
    the fastest one is no longer.
    """
    began = time.perf_counter()
    horizon = data.horizon if context.incumbent is None else context.incumbent // data.tick
    built = build(
        data,
        horizon=horizon,
        lower=(context.bound or 0) // data.tick,
        form=form,
        hint=None if context.answer is None else in_ticks(data, context.answer),
    )
    context.build_seconds = time.perf_counter() - began
    context.progress(f"CP-SAT, {form} memory: built in {context.build_seconds:.2f} s")
    return solve_cpsat(
        built.model,
        context,
        decode=lambda value: decode(built, value),
        to_objective=lambda ticks: ticks * data.tick,
    )

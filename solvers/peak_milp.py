"""Minimum peak memory by MILP: the glue between two formulations and HiGHS or another solver."""

from __future__ import annotations

import time
from types import ModuleType

from ..formulations import peak_milp_olla, peak_milp_steps
from ..formulations.peak_data import BuildTimeout, peak_data
from ..models.problem import Peak
from .context import Context, Outcome
from .engines import highs, pyomo_solver
from .engines.memory import refuse_if_too_large

_OWN_OPTIONS = ("solver",)

_BYTES_PER_TERM = 1500
"""Measured at the peak of building in Pyomo and solving with HiGHS."""


def solve_olla(problem: Peak, context: Context) -> Outcome:
    """Solve OLLA's MILP, from the known order (else the reference order) and bound.

    Option ``solver`` names another solver that Pyomo finds; further options go to the solver.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:harpoon")), "milp", threads=1)
    >>> result.status, result.objective, result.bound
    (<Status.OPTIMAL: 'optimal'>, 15, 15)
    """
    return _solve(problem, context, peak_milp_olla, "OLLA's MILP")


def solve_steps(problem: Peak, context: Context) -> Outcome:
    """Solve the time-indexed MILP; else as `solve_olla`."""
    return _solve(problem, context, peak_milp_steps, "the time-indexed MILP")


def _solve(problem: Peak, context: Context, formulation: ModuleType, what: str) -> Outcome:
    name = context.options.get("solver", "highs")
    if name == "highs":
        highs.check_options(context.options, _OWN_OPTIONS)
    else:
        pyomo_solver.check_available(name)
    data = peak_data(problem)
    if context.answer is None:
        context.offer(range(data.n))
    context.raise_bound(formulation.bound(data) * data.unit, kind="forced bytes")
    if context.closed:
        return Outcome()
    size = formulation.size(data)
    refused = refuse_if_too_large(size, bytes_per_term=_BYTES_PER_TERM, context=context, what=what)
    if refused is not None:
        return refused
    began = time.perf_counter()
    try:
        built = formulation.build(
            data,
            lower=data.to_units(context.bound or 0),
            upper=None if context.incumbent is None else context.incumbent // data.unit,
            hint=context.answer,
            expired=lambda: context.expired,
        )
    except BuildTimeout:
        return Outcome(reason="time", detail=f"{what} was not built in time")
    finally:
        context.build_seconds = time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")
    run = highs.solve_highs if name == "highs" else pyomo_solver.solve_pyomo
    return run(
        built.model,
        context,
        decode=lambda value: formulation.decode(built, value),
        to_objective=lambda units: units * data.unit,
        own_options=_OWN_OPTIONS,
    )

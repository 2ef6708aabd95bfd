"""Minimum peak memory by CP-SAT: the glue between the two formulations and the engine."""

from __future__ import annotations

import time
from types import ModuleType

from ..formulations import peak_cpsat_positions, peak_cpsat_steps
from ..formulations.peak_data import BuildTimeout, peak_data
from ..models.problem import Peak
from .context import Context, Outcome
from .engines.cpsat import check_options, solve_cpsat
from .engines.memory import refuse_if_too_large

_BYTES_PER_TERM = 600
"""Measured at the peak of presolve and search on traced training graphs, per thread: 300 to 640."""

_MOST_COPIES = 8
"""Threads beyond it are taken to search parts of the model only."""


def solve_steps(problem: Peak, context: Context) -> Outcome:
    """Solve the time-indexed formulation, from the known order (else the reference order) and bound.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:harpoon")), "cpsat", threads=1)
    >>> result.status, result.objective, result.bound
    (<Status.OPTIMAL: 'optimal'>, 15, 15)
    """
    return _solve(problem, context, peak_cpsat_steps, "the time-indexed CP-SAT model")


def solve_positions(problem: Peak, context: Context) -> Outcome:
    """Solve the formulation by positions, from the known order (else the reference order) and bound."""
    return _solve(problem, context, peak_cpsat_positions, "the CP-SAT model by positions")


def _solve(problem: Peak, context: Context, formulation: ModuleType, what: str) -> Outcome:
    check_options(context.options)
    data = peak_data(problem)
    if context.answer is None:
        context.offer(range(data.n))
    context.raise_bound(formulation.bound(data) * data.unit, kind="forced bytes")
    if context.closed:
        return Outcome()
    refused = refuse_if_too_large(
        formulation.size(data),
        bytes_per_term=_BYTES_PER_TERM * min(context.threads, _MOST_COPIES),
        context=context,
        what=what,
    )
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
    return solve_cpsat(
        built.model,
        context,
        decode=lambda value: formulation.decode(built, value),
        to_objective=lambda units: units * data.unit,
        defaults=search_defaults(context.threads),
    )


def search_defaults(threads: int) -> dict[str, str]:
    """Return the CP-SAT parameters that were best on random wired and traced training graphs.

    The linear relaxation is weak here and costs more than it gives (4 to 20 times the time with one
    thread), and one round of presolve finds nearly all that three do. From 8 threads on CP-SAT's own
    portfolio has a worker without relaxation; below it must be asked for.
    """
    chosen = {"max_presolve_iterations": "1"}
    if threads == 1:
        chosen["linearization_level"] = "0"
    elif threads < 8:
        chosen["subsolvers"] = "no_lp, default_lp, quick_restart_no_lp, core, reduced_costs, pseudo_costs"
    return chosen

"""Minimum peak memory by CP-SAT: the glue between the two formulations and the engine."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from ...formulations.peak import positions_cpsat as peak_cpsat_positions
from ...formulations.peak import steps_cpsat as peak_cpsat_steps
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..engines.cpsat import solve_cpsat
from .models import solve_model

_BYTES_PER_TERM = 600
"""Measured at the peak of presolve and search on traced training graphs, per thread: 300 to 640."""

_MOST_COPIES = 8
"""Threads beyond it are taken to search parts of the model only."""


def solve_steps(problem: Peak, context: Context) -> Outcome:
    """Solve the time-indexed formulation; options and start as in `lowtide.solvers.peak.models`.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:harpoon")), "cpsat", threads=1)
    >>> result.status, result.objective, result.bound
    (<Status.OPTIMAL: 'optimal'>, 15, 15)
    """
    return _solve(problem, context, peak_cpsat_steps, "the time-indexed CP-SAT model")


def solve_positions(problem: Peak, context: Context) -> Outcome:
    """Solve the formulation by positions; else as `solve_steps`."""
    return _solve(problem, context, peak_cpsat_positions, "the CP-SAT model by positions")


def _solve(problem: Peak, context: Context, formulation: ModuleType, what: str) -> Outcome:
    return solve_model(
        problem,
        context,
        formulation,
        what,
        bytes_per_term=_BYTES_PER_TERM * min(context.threads, _MOST_COPIES),
        run=partial(solve_cpsat, defaults=search_defaults(context.threads)),
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

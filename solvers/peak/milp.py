"""Minimum peak memory by MILP: the glue between three formulations and HiGHS or another solver."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ...formulations.peak import (
    olla_milp as peak_milp_olla,
)
from ...formulations.peak import (
    olla_tensors_milp as peak_milp_olla_tensors,
)
from ...formulations.peak import (
    steps_milp as peak_milp_steps,
)
from ...formulations.peak.data import PeakData
from ...formulations.peak.olla_tensors_milp import with_chain_windows
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..engines import pyomo_solver
from .models import solve_model

_BYTES_PER_TERM = 1500
"""Measured at the peak of building in Pyomo and solving with HiGHS."""


def solve_olla(problem: Peak, context: Context) -> Outcome:
    """Solve OLLA's MILP with one create variable per op; options as in `lowtide.solvers.peak.models`.

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


def solve_tensors(problem: Peak, context: Context) -> Outcome:
    """Solve OLLA's MILP with its own variables; ``plain=1`` gives it OLLA's windows; else as `solve_olla`."""
    return _solve(problem, context, peak_milp_olla_tensors, "OLLA's MILP by tensors", with_chain_windows)


def _solve(
    problem: Peak,
    context: Context,
    formulation: ModuleType,
    what: str,
    plain_data: Callable[[PeakData], PeakData] = lambda data: data,
) -> Outcome:
    return solve_model(
        problem,
        context,
        formulation,
        what,
        bytes_per_term=_BYTES_PER_TERM,
        run=pyomo_solver.solve_milp,
        plain_data=plain_data,
    )

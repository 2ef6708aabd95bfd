"""Minimum peak memory by a solver: from the problem to a model of any of the formulations, and through it.

1. The known order and bound: the hint, else the reference order and the formulation's bound; with option
   ``start=bounds`` also what `auto` takes first
   (`lowtide.solvers.peak.search.rounds.take_first_steps`).
2. Too large a model is refused before it is built.
3. The orders of pairs that the known order's peak forces (`lowtide.formulations.peak.forced_orders`) join the
   data, except with option ``plain=1``.
4. The model is built with order and bounds, and the solver runs. All of it counts as the method's time.
"""

from __future__ import annotations

from typing import Any

from ...formulations.model import BuildTimeout, Variant
from ...formulations.peak import olla_milp, olla_tensors_milp, positions_cpsat, steps_cpsat, steps_milp
from ...formulations.peak.data import PeakData, accessed_bound, peak_data
from ...formulations.peak.forced_orders import with_forced_orders
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..engines.model import solve_model
from .search.rounds import take_first_steps

FORCING = 0.1
"""The part of the time that is left which the search for forced orders may take."""

AT_ONCE = 10_000
"""Ops up to which bounds of single ops take less than a tenth of a second, also when the time is up."""

MOST_COPIES = 8
"""Threads beyond it are taken to search parts of a CP-SAT model only."""


FORMULATIONS: dict[str, tuple[Variant, str]] = {
    "cpsat": (steps_cpsat, "the time-indexed CP-SAT model"),
    "cpsat-positions": (positions_cpsat, "the CP-SAT model by positions"),
    "milp": (olla_milp, "OLLA's MILP"),
    "milp-tensors": (olla_tensors_milp, "OLLA's MILP by tensors"),
    "milp-steps": (steps_milp, "the time-indexed MILP"),
}
"""Method -> its formulation, and what messages call it."""


def solve(problem: Peak, context: Context) -> Outcome:
    """Solve the formulation of the method."""
    return solve_formulation(problem, context, context.method)


def solve_formulation(problem: Peak, context: Context, method: str) -> Outcome:
    """Solve a formulation, from the known order and bound.

    With option ``plain=1`` no forced orders join the data, and OLLA's own variables have OLLA's windows.
    """
    formulation, what = FORMULATIONS[method]
    plain = context.options.get("plain", False)
    if context.options.get("start") == "bounds":
        take_first_steps(problem, context)
        if context.closed:
            return Outcome()
    if context.answer is None:
        context.offer(range(len(problem.graph.ops)))
    try:
        data = peak_data(problem, expired=lambda: context.expired)
        forced = formulation.bound(data, lambda: context.expired)
    except BuildTimeout:
        if len(problem.graph.ops) <= AT_ONCE:
            data = peak_data(problem, masks=False)
            context.raise_bound(accessed_bound(data) * data.unit, kind="bytes of single ops")
        return Outcome(reason="time", detail=f"{what} was not built in time")
    context.raise_bound(forced * data.unit, kind="forced bytes")
    if context.closed:
        return Outcome()
    chosen = olla_tensors_milp.with_chain_windows(data) if plain and method == "milp-tensors" else data

    def build() -> Any:
        stated = chosen
        if not plain:
            stated = _forced(data, context)
            context.raise_bound(formulation.bound(stated) * data.unit, kind="forced orders")
            if context.closed:
                return None
        return formulation.build(
            stated,
            lower=data.to_units(context.bound or 0),
            upper=None if context.incumbent is None else context.incumbent // data.unit,
            hint=context.answer,
            expired=lambda: context.expired,
        )

    cpsat = formulation.ENGINE == "cpsat"
    return solve_model(
        context,
        formulation,
        build,
        what=what,
        size=formulation.size(chosen),
        decode=formulation.decode,
        to_objective=lambda units: units * data.unit,
        factor=min(context.threads, MOST_COPIES) if cpsat else 1,
        settings=(search_defaults(context.threads) if cpsat else {},),
    )


def _forced(data: PeakData, context: Context) -> PeakData:
    """Return the data with what the known order's peak forces; the bound of it holds for every order.

    Orders above the limit need not obey what is forced, but their peak is above the limit, which is at least
    the bound.
    """
    context.progress("forced orders")
    enough = context.elapsed() + FORCING * context.remaining()
    return with_forced_orders(data, context.answer, expired=lambda: context.elapsed() >= enough)


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

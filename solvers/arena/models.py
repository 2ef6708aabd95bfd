"""Methods of `arena` that solve a model."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...formulations.arena import olla_milp, rectangles_cpsat
from ...formulations.arena.data import arena_data
from ...formulations.model import Formulation
from ...models.problems.arena import Arena
from ..context import Context, Outcome
from ..engines.model import solve_model
from .allocating import allocate


def solve_joint(problem: Arena, context: Context) -> Outcome:
    """Solve positions and rectangles in one model, from the best answer known or the reference order's."""
    return _solve(problem, context, rectangles_cpsat, "the CP-SAT model", hinted=True)


def solve_milp(problem: Arena, context: Context) -> Outcome:
    """Solve OLLA's whole program, within what the reference order needs."""
    context.careful = True  # what a solver's tolerances let overlap is no answer
    return _solve(problem, context, olla_milp, "the MILP", hinted=False)


def _solve(problem: Arena, context: Context, formulation: Any, what: str, *, hinted: bool) -> Outcome:
    data = arena_data(problem)
    if context.answer is None:
        allocate(context, data, range(data.n), 0.0, ())
    if not data.pieces or not data.n:  # all orders are alike
        least, _ = allocate(context, data, range(data.n), context.remaining())
        context.raise_bound(least)
        return Outcome(reason=None if context.closed or not context.expired else "time")
    known: Formulation = formulation
    return solve_model(
        context,
        known,
        partial(
            formulation.build,
            data,
            lower=-(-(context.bound or 0) // data.unit),
            upper=None if context.incumbent is None else context.incumbent // data.unit,
            expired=lambda: context.expired,
            **({"hint": context.answer} if hinted else {}),
        ),
        what=what,
        size=formulation.size(data),
        to_objective=lambda units: units * data.unit,
        decode=formulation.decode,
        factor=context.threads if hinted else 1,
    )

"""Methods of `arena` that solve a model."""

from __future__ import annotations

from ...formulations.arena import rectangles_cpsat
from ...formulations.arena.data import arena_data
from ...models.problems.arena import Arena
from ..context import Context, Outcome
from ..engines.model import solve_model
from .allocating import QUICK, allocate


def solve_joint(problem: Arena, context: Context) -> Outcome:
    """Solve positions and rectangles in one model, from the best answer known or the reference order's."""
    data = arena_data(problem)
    if context.answer is None:
        allocate(context, data, range(data.n), 0.0, QUICK)
    if not data.pieces or not data.n:
        context.raise_bound(context.incumbent or 0)
        return Outcome()
    unit = rectangles_cpsat.unit_of(data)
    return solve_model(
        context,
        rectangles_cpsat,
        lambda: rectangles_cpsat.build(
            problem.graph,
            data,
            lower=-(-(context.bound or 0) // unit),
            upper=None if context.incumbent is None else context.incumbent // unit,
            hint=context.answer,
            expired=lambda: context.expired,
        ),
        what="the CP-SAT model",
        size=rectangles_cpsat.size(data),
        to_objective=lambda units: units * unit,
        decode=rectangles_cpsat.decode,
        factor=context.threads,
    )

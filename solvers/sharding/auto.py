"""`auto` for `sharding`: the descent, and the MILP over the local polytope, in turns."""

from __future__ import annotations

from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .descent import KERNELS, solve_descent
from .models import solve_milp


def solve_auto(problem: Sharding, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


def _model_seconds(problem: Sharding) -> float:
    """Return an estimate of the seconds until the model has a bound."""
    return sum(map(len, problem.network.matrices)) / 50_000


PARTS = (
    Part(name="descent", run=solve_descent, kernels=KERNELS),
    Part(name="milp", run=solve_milp, seconds=_model_seconds, pauses=False, kernels=KERNELS),
)

"""`auto` for `sharding`: prices with messages, and the MILP over the local polytope, in turns."""

from __future__ import annotations

from ...formulations.sharding.data import sharding_data
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .ascent import KERNELS, solve_prices
from .models import solve_milp


def solve_auto(problem: Sharding, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


def _model_seconds(problem: Sharding) -> float:
    """Return an estimate of the seconds until the model has a bound."""
    return sum(own.size for own in sharding_data(problem).matrices.values()) / 20_000


PARTS = (
    Part(name="prices", run=solve_prices, kernels=KERNELS),
    Part(name="milp", run=solve_milp, seconds=_model_seconds, pauses=False, kernels=KERNELS),
)

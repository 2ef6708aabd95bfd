"""`auto` for `sharding`: prices with messages, beams that these guide, and the MILP, in turns."""

from __future__ import annotations

from functools import partial

from ...formulations.sharding.data import ShardingData
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .ascent import Ascent, solve_prices
from .beams import KERNELS, solve_beams
from .bounds import prepared
from .models import solve_milp


def solve_auto(problem: Sharding, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    data = prepared(problem, context)
    if data is None:
        return Outcome(reason="time")
    return run(_parts(data, context.seed), problem, context)


def _parts(data: ShardingData, seed: int) -> list[Part]:
    """Return the parts, which share the prices that the first one finds."""
    ascent = Ascent(data, seed)
    pairs = sum(own.size for own in data.matrices.values())
    model_seconds = pairs / 20_000 * max(1.0, pairs / 100_000)  # large ones take more for each pair
    return [
        Part(name="prices", run=partial(solve_prices, ascent=ascent), kernels=KERNELS),
        Part(name="beam", run=partial(solve_beams, ascent=ascent), kernels=KERNELS),
        Part(
            name="milp",
            run=partial(solve_milp, ascent=ascent),
            seconds=lambda _: model_seconds,
            pauses=False,
            kernels=KERNELS,
        ),
    ]

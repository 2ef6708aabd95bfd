"""`auto` for `tiles`: fusion, local search, prices and the shortest path over all groups, in turns."""

from __future__ import annotations

from ...models.problems.tiles import Tiles
from ..context import Context, Outcome
from ..parts import Part, per_op
from ..portfolio import run
from .exact import solve_search
from .fusion import solve_greedy
from .local_search import solve_fused_layer, solve_local_search
from .prices import solve_prices


def solve_auto(problem: Tiles, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


PARTS = (
    Part(name="fused-layer", run=solve_fused_layer, seconds=per_op(1_000)),
    Part(name="greedy", run=solve_greedy, seconds=per_op(500)),
    Part(name="prices", run=solve_prices, seconds=per_op(10)),
    Part(name="local-search", run=solve_local_search, seconds=per_op(40)),
    Part(name="exact", run=solve_search, seconds=per_op(100, 2)),
)

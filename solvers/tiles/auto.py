"""`auto` for `tiles`: greedy fusion at once, then the shortest path over all groups of joined ops."""

from __future__ import annotations

from ...models.problems.tiles import Tiles
from ..context import Context, Outcome
from ..parts import Part, per_op
from ..portfolio import run
from .exact import solve_exact
from .fusion import solve_greedy, solve_single


def solve_auto(problem: Tiles, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


PARTS = (
    Part(name="single", run=solve_single, seconds=per_op(1_000)),
    Part(name="greedy", run=solve_greedy, seconds=per_op(100)),
    Part(name="exact", run=solve_exact, seconds=per_op(1_000, 2)),
)

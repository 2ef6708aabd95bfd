"""`auto` for `hybrid`: stages along ideals in modes by exact knapsacks, in turns with what is found sooner.

`ideals` finds and proves; `piper`, the same program with modes by the published heuristic, and `equal`,
stages of the same degrees, have an answer where a proof takes long (`lowtide.solvers.portfolio`).
"""

from __future__ import annotations

from ...models.problems.hybrid import Hybrid
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .equal import solve_equal
from .piper import solve_ideals, solve_piper


def solve_auto(problem: Hybrid, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    return run(PARTS, problem, context)


PARTS = (
    Part(name="ideals", run=solve_ideals),
    Part(name="piper", run=solve_piper),
    Part(name="equal", run=solve_equal),
)

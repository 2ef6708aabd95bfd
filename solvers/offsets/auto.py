"""`auto` and `search` for `offsets`: the parts of both, in turns on each open component.

1. `lowtide.solvers.offsets.components` proves the bound of each component, and places it as an allocator at
   run time would; most components meet their bounds then, or that of their pool.
2. In turns (`lowtide.solvers.portfolio`): branch and bound at the height below which nothing is gained (a
   solution closes the component, an exhausted search raises its bound) and at lower and lower heights; greedy
   placements; local search; CP-SAT, the only one that proves anything of components with windows, or in-place
   pairs that cannot be merged.
"""

from __future__ import annotations

from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..parts import Part
from .banks import solve_banks
from .components import BestOffsets, Components
from .descent import SEARCH_KERNELS, seconds_of_search
from .greedy import PLACE
from .local_search import IMPROVE
from .models import CPSAT
from .turns import search_components


def solve_auto(problem: Offsets, context: Context) -> Outcome:
    """Stop as soon as every component is done; with banks, the whole is one question."""
    if problem.banks:
        return solve_banks(problem, context)
    return search_components(Components(problem, context), PARTS)


def solve_search(problem: Offsets, context: Context) -> Outcome:
    """Prove the bounds of the components, or lower their heights to them, by branch and bound alone."""
    return search_components(Components(problem, context), (PROVE, DESCEND))


def _windows(component: BestOffsets) -> str:
    return "gaps with windows" if component.data.has_windows else ""


def _searching(name: str, run: str) -> Part:
    return Part(
        name=name,
        run=f".offsets.descent:{run}",
        refuses=_windows,
        seconds=seconds_of_search,
        kernels=SEARCH_KERNELS,
    )


PROVE, DESCEND = _searching("branch and bound", "prove"), _searching("lower heights", "descend")
PARTS = (PROVE, PLACE, IMPROVE, DESCEND, CPSAT)

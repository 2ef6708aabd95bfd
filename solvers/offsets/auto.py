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
from ..engines.compilation import estimated_seconds
from ..parts import Part
from .component_context import ComponentContext
from .components import Component, Components
from .greedy import PLACE
from .local_search import IMPROVE
from .models import CPSAT
from .search import Found, Infeasible, Prepared, Search
from .turns import search_components

PATIENCE = 10
"""Steps of a search at one height before another is tried, at first."""

STEPS = 1000
"""Steps of a search at one height where there is no time limit; one takes some tens of milliseconds."""

SEARCH_KERNELS = (".offsets.search_kernel",)

UNITS_PER_SECOND = 100_000_000
"""Buffers times buffers and sections of which the first dive of branch and bound is made in a second."""


def solve_auto(problem: Offsets, context: Context) -> Outcome:
    """Stop as soon as every component is done."""
    return search_components(Components(problem, context), PARTS)


def solve_search(problem: Offsets, context: Context) -> Outcome:
    """Prove the bounds of the components, or lower their heights to them, by branch and bound alone."""
    return search_components(Components(problem, context), (PROVE, DESCEND))


def prove(component: Component, context: ComponentContext) -> Outcome:
    """Search for an allocation within the least height that is not refuted."""
    steps = STEPS if context.time_limit is None else 10**9
    while not context.closed:
        before = component.height, component.bound
        reason = _search(component, context, context.target, context.seed, steps)
        if reason == "time" or before == (component.height, component.bound):
            return _ended(reason)
    return Outcome()


def descend(component: Component, context: ComponentContext) -> Outcome:
    """Search for allocations below the best one, half-way to the target first, then nearer to it."""
    patience, seed = PATIENCE, context.seed
    while not context.closed and (context.time_limit is not None or patience < STEPS):
        assert component.height is not None
        height = component.height
        step = max(1, (height - context.target) // 2)
        while not context.closed and component.height == height:
            seed += 1
            reason = _search(component, context, height - step, seed, patience)
            if reason:
                return _ended(reason)
            if step == 1:
                patience *= 2
                break
            step = max(1, step // 2)
    return Outcome()


def _search(component: Component, context: ComponentContext, height: int, seed: int, steps: int) -> str:
    """Search for an allocation of a height, in so many steps; say why it gave up before these."""
    if component.prepared is None:
        component.prepared = Prepared(component.data)
    for _ in component.prepared.make():
        if context.expired:
            return "time"
    for _, answer in zip(range(steps), Search(component.prepared, height, seed).steps(), strict=False):
        if isinstance(answer, Found):
            context.offer(answer.offsets)
        elif isinstance(answer, Infeasible):
            context.raise_bound(height + 1, kind="branch and bound")
        elif answer is not None:
            return answer.reason
        if context.expired:
            return "time"
        if height < context.target:
            break
    return ""


def _ended(reason: str) -> Outcome:
    words = {"memory": "too large for its tables", "incomplete": "it knows pairs as one buffer only"}
    return Outcome(reason="time" if reason == "time" else None, detail=words.get(reason, ""))


def _windows(component: Component) -> str:
    return "gaps with windows" if component.data.has_windows else ""


def _seconds_of_search(component: Component) -> float:
    data = component.data
    dive = data.count * (data.count + data.sections) / UNITS_PER_SECOND
    return dive + estimated_seconds(SEARCH_KERNELS)


def _searching(name: str, run: str) -> Part:
    return Part(
        name=name,
        run=f".offsets.auto:{run}",
        refuses=_windows,
        seconds=_seconds_of_search,
        kernels=SEARCH_KERNELS,
    )


PROVE, DESCEND = _searching("branch and bound", "prove"), _searching("lower heights", "descend")
PARTS = (PROVE, PLACE, IMPROVE, DESCEND, CPSAT)

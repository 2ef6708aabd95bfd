"""Branch and bound on a component at heights below the best one: proofs at the target, descents to it."""

from __future__ import annotations

from ..context import Outcome
from ..engines.compilation import estimated_seconds
from .component_context import ComponentContext
from .components import BestOffsets
from .search import Found, Infeasible, Prepared, Search

PATIENCE = 10
"""Steps of a search at one height before another is tried, at first."""

STEPS = 1000
"""Steps of a search at one height where there is no time limit; one takes some tens of milliseconds."""

SEARCH_KERNELS = (".offsets.search_kernel",)

UNITS_PER_SECOND = 100_000_000
"""Buffers times buffers and sections of which the first dive of branch and bound is made in a second."""


def seconds_of_search(component: BestOffsets) -> float:
    """Return the seconds of the first dive, with the compilation of what is not compiled yet, about."""
    data = component.data
    dive = data.count * (data.count + data.sections) / UNITS_PER_SECOND
    return dive + estimated_seconds(SEARCH_KERNELS)


def prove(component: BestOffsets, context: ComponentContext) -> Outcome:
    """Search for an allocation within the least height that is not refuted."""
    steps = STEPS if context.time_limit is None else 10**9
    while not context.closed:
        before = component.height, component.bound
        reason = _search(component, context, context.target, context.seed, steps)
        if reason == "time" or before == (component.height, component.bound):
            return _ended(reason)
    return Outcome()


def descend(component: BestOffsets, context: ComponentContext) -> Outcome:
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


def _search(component: BestOffsets, context: ComponentContext, height: int, seed: int, steps: int) -> str:
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

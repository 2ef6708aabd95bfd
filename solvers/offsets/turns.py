"""The parts of a method on each component of a problem `offsets`, in turns (`lowtide.solvers.portfolio`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .component_context import component_context
from .components import BestOffsets, Components
from .first_come import PLAIN, place_as_they_come
from .layout import is_short


def search_components(components: Components, parts: Sequence[Part]) -> Outcome:
    """Run parts of a method on the open components, in turns; each is placed before any is improved."""
    context, open_ = components.context, components.open()
    if any(component.data.count > PLAIN for component in open_):
        context.prepare((".offsets.first_come",))
    for component in open_:
        if component.offsets is None:
            components.offer(component, place_as_they_come(component.data))
    open_ = components.open()
    if len(open_) == 1:
        outcome = _searched(components, parts, open_[0], components.problem, context)
    else:
        each = [
            Part(name=f"component {k}", run=partial(_searched, components, parts, component))
            for k, component in enumerate(open_, 1)
        ]
        outcome = run(each, components.problem, context) if each else Outcome()
    # Parts end by themselves, too, where placing once more takes longer than what is left.
    short = any(is_short(component.data, context.remaining()) for component in components.open())
    return components.outcome(outcome.reason or ("time" if short else None), outcome.detail)


def _searched(
    components: Components, parts: Sequence[Part], component: BestOffsets, problem: Offsets, context: Context
) -> Outcome:
    """Run parts on one component."""
    refused = {part.name: part.refuses(component) for part in parts}
    if all(refused.values()):  # the engine would take it for a lack of time
        return components.outcome(words="; ".join(f"{name}: {why}" for name, why in refused.items()))
    outcome = run(parts, component, component_context(components, component, context))
    return components.outcome(outcome.reason, outcome.detail)

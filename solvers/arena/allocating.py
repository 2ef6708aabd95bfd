"""Addresses for one order after the other: each order is a problem `offsets` of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.arena.data import ArenaData
from ...models.problems.offsets import Offsets
from ..context import Context
from ..offsets.auto import PARTS, PROVE
from ..offsets.components import Components
from ..offsets.greedy import PLACE
from ..offsets.models import CPSAT
from ..offsets.turns import search_components
from ..parts import Part

QUICK = (PROVE, PLACE)
"""Branch and bound at the least height that is not refuted, and greedy placements."""

FINITE = tuple(part for part in PARTS if part is not CPSAT)
"""Those that end without a time limit."""


def allocate(
    context: Context,
    data: ArenaData,
    order: Sequence[int],
    seconds: float,
    parts: Sequence[Part] = PARTS,
) -> tuple[int, int | None]:
    """Offer the allocations of an order found in so many seconds; return its least load and its height.

    Nothing is tried, and the height is None, where the load is not below the incumbent.
    """
    problem = Offsets(data.buffers(order))
    inner = context.inner(problem, seconds, "addresses: ")

    def hand_on() -> None:
        found = inner.incumbent
        if found is not None and (context.incumbent is None or found < context.incumbent):
            context.offer(data.answer(order, inner.answer))

    inner.changed = hand_on
    components = Components(problem, inner)
    if context.incumbent is None or (inner.bound or 0) < context.incumbent:
        search_components(components, parts)
    return inner.bound or 0, inner.incumbent

"""Addresses for one order after the other: each order is a problem `offsets` of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.arena.data import ArenaData
from ...models.problems.offsets import Offsets
from ..context import Context
from ..offsets.auto import Method, descend, improve, model, place, prove, take_turns
from ..offsets.parts import Parts

QUICK: tuple[Method, ...] = (place, prove)
"""Greedy placements, and branch and bound at the least height that is not refuted."""
WHOLE: tuple[Method, ...] = (place, prove, descend, improve, model)


def allocate(
    context: Context,
    data: ArenaData,
    order: Sequence[int],
    seconds: float,
    methods: tuple[Method, ...] = WHOLE,
) -> tuple[int, int | None]:
    """Offer the best allocation of an order found in so many seconds; return its least load and its height.

    Nothing is tried, and the height is None, where the load is not below the incumbent.
    """
    problem = Offsets(data.buffers(order))
    inner = context.inner(problem, seconds, "addresses: ")
    parts = Parts(problem, inner)
    if context.incumbent is None or (inner.bound or 0) < context.incumbent:
        take_turns(parts, methods)
    if inner.answer is not None:
        context.offer(data.answer(order, inner.answer))
    return inner.bound or 0, inner.incumbent

"""The verifier's count of pages: what a plan takes of each tier where memory is given out in whole pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise

from ..graph import Graph
from ..plan import Plan
from .actions import well_formed
from .buffers_of_plan import buffers_of_plan
from .case import Case
from .residencies import residencies
from .starts import start_rule

Held = list[tuple[int, int, int, int]]
"""Begin and end of a time, first page and last page but one, of what is held in that time."""


def paged_peaks(
    graph: Graph, plan: Plan, page: int, start_tiers: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, int]:
    """Return by tier the most bytes in pages at a time, of a plan that is valid without pages.

    Byte b of a tensor lies in its page b // `page`, which is held in a tier while any of its bytes is there.
    Each run's workspace has pages of its own. In-place pairs share none, as in a tier's profile.
    """
    case = Case(graph, plan.machine, plan.period)
    actions = well_formed(case, plan, start_rule(case, plan, start_tiers))
    listed = residencies(case, actions)
    buffers = buffers_of_plan(case, actions).buffers
    tensors: dict[tuple[str, int], Held] = defaultdict(list)
    changes: dict[str, dict[int, int]] = {tier: defaultdict(int) for tier in case.tiers}
    for r, b in zip(listed, buffers, strict=False):
        tensors[b.pool, r.tensor] += [
            (start, end, (r.low + low) // page, -(-(r.low + high) // page))
            for start, end, low, high in b.rectangles
        ]
    for (tier, _), held in tensors.items():
        for start, end, pages in _unions(held):
            changes[tier][start] += pages * page
            changes[tier][end] -= pages * page
    for b in buffers[len(listed) :]:
        changes[b.pool][b.lower] += -(-b.size // page) * page
        changes[b.pool][b.upper] -= -(-b.size // page) * page
    return {
        tier: max(accumulate(some[time] for time in sorted(some)), default=0)
        for tier, some in changes.items()
    }


def _unions(held: Held) -> Iterable[tuple[int, int, int]]:
    """Yield the times during which some pages are held by anything, and how many pages these are."""
    ends = sorted({x for *_, low, high in held for x in (low, high)})
    for low, high in pairwise(ends):
        reached = -1
        for start, end in sorted((a, b) for a, b, c, d in held if c <= low < d):
            if end > reached:
                yield max(start, reached), end, high - low
                reached = end

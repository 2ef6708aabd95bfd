"""Placements that no plan can have because what must start in some tiers does not fit there.

At time 0 every initial byte that somebody needs is in one of the tiers where its kind may start. So for each
set of tiers, the lives that may start in these only fit into them. (What does not fit at a later moment
`Placement.impossible` finds.)
"""

from __future__ import annotations

from itertools import combinations

from .placement_data import Life, PlacementData


def overfull(data: PlacementData) -> str | None:
    """Return tiers with more than they hold among what may start in them only, or None.

    Examples
    --------
    >>> from lowtide.formulations.placement_data import placement_data
    >>> from lowtide.instances.load_placement import load_placement
    >>> spec = "gen:transformer?layers=1&weights=1&machine=v100-16g-pcie3&start=gpu&device=64MiB"
    >>> overfull(placement_data(load_placement(spec)))  # doctest: +ELLIPSIS
    'at time 0, ... bytes must be in the fast memory, expected at most 67108864'
    """
    initial = [life for life in data.lives if life.born < 0]
    tiers = ["the fast memory", *(tier.name for tier in data.outer)]
    capacities = [data.memory, *(tier.capacity for tier in data.outer)]
    for many in range(1, len(tiers) + 1):
        for some in combinations(range(len(tiers)), many):
            room = [capacities[x] for x in some]
            bound = [life for life in initial if _tiers_of(life) <= set(some)]
            total = sum(life.nbytes for life in bound)
            most = sum(c for c in room if c is not None)
            if None not in room and total > most:
                return (
                    f"at time 0, {total} bytes must be in {' or '.join(tiers[x] for x in some)}, "
                    f"expected at most {most}"
                )
    return None


def _tiers_of(life: Life) -> set[int]:
    """Return where a life may start: 0 is the fast memory."""
    return {x for x, may in enumerate((life.device, *life.outer)) if may}

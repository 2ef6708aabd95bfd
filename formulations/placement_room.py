"""Placements that no plan can have because at some moment what must be somewhere fits nowhere.

1. *While op k runs*, the fast memory holds the :math:`W_k` bytes that it needs; every other byte that is
   alive then, being needed later and accessed by no op meanwhile, is in the rest of it or in an outer tier.
   So the bytes of these lives are at most what the fast memory leaves and the capacities of all outer tiers
   together. The same between ops, where nothing is needed, and at the end, for what must be kept.
2. *At time 0* every initial byte that somebody needs is in one of the tiers where its kind may start. So for
   each set of tiers, the lives that may start in these only fit into them.
"""

from __future__ import annotations

from itertools import combinations

from .placement_data import Life, PlacementData


def overfull(data: PlacementData) -> str | None:
    """Return a moment at which what must be somewhere fits nowhere, or None.

    Examples
    --------
    >>> from lowtide.formulations.placement_data import placement_data
    >>> from lowtide.instances.load_placement import load_placement
    >>> spec = "gen:skipchain?n=6&seed=1&machine=v100-16g-pcie3&start=gpu&device=300MB&host=1MB"
    >>> overfull(placement_data(load_placement(spec)))  # doctest: +ELLIPSIS
    'during op 3, 347283456 bytes must be somewhere, expected at most 301000000: ...
    """
    return _at_the_start(data) or _on_the_way(data)


def _on_the_way(data: PlacementData) -> str | None:
    """Return an op, or the time before one, with more alive than all tiers hold (1)."""
    capacities = [tier.capacity for tier in data.outer]
    outside = sum(c for c in capacities if c is not None)
    if None in capacities:
        return None
    names = ", ".join(tier.name for tier in data.outer) or "no other tier"
    for k in range(data.n + 1):
        spanning = [life for life in data.lives if life.born < k and (life.kept or life.accesses[-1] >= k)]
        moments = [(f"before op {k}" if k < data.n else "at the end", 0, spanning)]
        if k < data.n:
            others = [life for life in spanning if _outlives(life, k)]
            moments.append((f"during op {k}", data.need[k], others))
        for when, need, alive in moments:
            total = need + sum(life.nbytes for life in alive)
            if total > data.memory + outside:
                return (
                    f"{when}, {total} bytes must be somewhere, expected at most {data.memory + outside}: "
                    f"{data.memory} in the fast memory and {outside} outside ({names})"
                )
    return None


def _outlives(life: Life, k: int) -> bool:
    """Whether a life that is alive before op k is not accessed by it, but needed later."""
    return k not in life.accesses and (life.kept or life.accesses[-1] > k)


def _at_the_start(data: PlacementData) -> str | None:
    """Return tiers with more than they hold among what may start in them only (2)."""
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

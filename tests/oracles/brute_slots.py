"""Exhaustive search in the slot model of checkpointing: one state in work, others in slots of tiers.

Dijkstra over (state in work, what each tier keeps, steps still to be reversed). A forward advances the state
in work; tier k keeps at most c_k states; writing the state in work there takes w_k, reading one into work
r_k; the last step left is reversed from its state in work. Nothing is shared with the package.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def least_time(
    forwards: int,
    slots: Sequence[int],
    write: Sequence[int],
    read: Sequence[int],
    forward: int,
    backward: int,
) -> int | None:
    """Return the least time to reverse a chain of so many forwards and one backward more."""
    start: tuple[int, tuple[frozenset[int], ...], int] = (0, tuple(frozenset() for _ in slots), forwards)
    best = {start: 0}
    queue = [(0, 0, start)]
    count = 0
    while queue:
        time, _, state = heapq.heappop(queue)
        if best[state] < time:
            continue
        work, kept, left = state
        if left < 0:
            return time
        ways = []
        if work < left:
            ways.append((forward, (work + 1, kept, left)))
        if work == left:
            ways.append((backward, (forwards + 1, kept, left - 1)))  # what is in work is of no more use
        for k, states in enumerate(kept):
            if work <= left and work not in states and len(states) < slots[k]:
                ways.append((write[k], (work, (*kept[:k], states | {work}, *kept[k + 1 :]), left)))
            for i in states:
                if i <= left:
                    ways.append((read[k], (i, kept, left)))
                ways.append((0, (work, (*kept[:k], states - {i}, *kept[k + 1 :]), left)))
        for cost, then in ways:
            if time + cost < best.get(then, time + cost + 1):
                best[then] = time + cost
                count += 1
                heapq.heappush(queue, (time + cost, count, then))
    return None

"""The order of a plan's actions on the same bytes, and the earliest times that keep orders; compiled."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import kernel, record
from ..world.channels import numbers

THERE, FREE, READ, FILL, WRITE = numbers(5)
"""What an action does to bytes in a tier; THERE: they are there at time 0; WRITE: a run does so, and makes
those in other tiers stale."""

NODE = record(
    begin="ns: in the plan that is timed",
    finish="ns",
    ahead="ns by which its new begin is before its new time",
    behind="ns by which its new end is behind it",
)

EVENT = record(
    segment="bytes that begin and end alike in all events",
    node="whose time is its own",
    tier="number",
    kind="THERE, FREE, READ, FILL or WRITE",
    cyclic="whether the bytes outlive the period",
)

ARC = record(
    source="node",
    target="node: its time is at least the source's",
    wait="ns: plus these",
    laps="periods: less these",
)


@kernel
def order_bytes(
    node: Annotated[Any, NODE],
    event: Annotated[Any, EVENT],
    tiers: int,
    period: int,
    arc: Annotated[Any, ARC],
    allocates: Rows,
) -> int:
    """Write the arcs between events on the same bytes; return how many there are, also beyond the room.

    Parameters
    ----------
    node, event
        Events by segment, and as they follow each other.
    tiers, period
        Number; ns, 0 for a single run.
    arc
        Arcs, as far as there is room.
    allocates
        By node and tier, set to 1 where bytes come that were not there.
    """
    count = low = 0
    readers = np.zeros((tiers, 2 * len(event) + 1), np.int64)  # behind what they read was filled by
    reading = np.zeros(tiers, np.int64)
    there = np.zeros(tiers, np.int64)
    while low < len(event):
        high = low + 1
        while high < len(event) and event[high].segment == event[low].segment:
            high += 1
        there[:], reading[:], readers[:, 0] = 0, 0, -1
        for lap in range(2 if event[low].cyclic else 1):
            for e in range(low, high):
                one, now = event[e], node[event[e].node]
                if one.kind == THERE:
                    there[one.tier] = 1
                    if not one.cyclic:
                        readers[one.tier, 0] = 2 * e
                    continue
                if one.kind == FREE:
                    there[one.tier] = 0
                elif one.kind != READ and there[one.tier] == 0:
                    there[one.tier] = 1
                    allocates[one.node, one.tier] = 1
                for tier in range(tiers):
                    if tier != one.tier and one.kind != WRITE:
                        continue
                    for k in range(1 if one.kind == READ else 1 + reading[tier]):
                        other = readers[tier, k]
                        first, laps = event[other // 2].node, lap - other % 2
                        if other < 0 or first == one.node or laps < lap:
                            continue
                        if node[first].finish > now.begin + laps * period:
                            continue  # at once: neither waits
                        if count < len(arc):
                            arc[count].source, arc[count].target = first, one.node
                            arc[count].wait, arc[count].laps = node[first].behind + now.ahead, laps
                        count += 1
                    if one.kind == READ:
                        reading[tier] += 1
                    else:
                        reading[tier] = 0
                    readers[tier, reading[tier]] = 2 * e + lap
        low = high
    return count


@kernel
def settle(
    order: Integers, first: Integers, arc: Annotated[Any, ARC], period: int, sweeps: int, times: Integers
) -> bool:
    """Raise times to the least that satisfy all arcs; return False if that would move node 0, or lasts long.

    Parameters
    ----------
    order
        Nodes, as a sweep takes them.
    first
        By node its first arc, of those by target; and how many arcs there are.
    arc, period
        By target; ns.
    sweeps
        After which it gives up.
    times
        By node, ns.
    """
    for _ in range(sweeps):
        settled = True
        for k in order:
            least = times[k]
            for a in range(first[k], first[k + 1]):
                least = max(least, times[arc[a].source] + arc[a].wait - arc[a].laps * period)
            if least > times[k]:
                if k == 0:
                    return False
                times[k] = least
                settled = False
        if settled:
            return True
    return False

"""`smartpool`: weighted interval colouring, and the region of what crosses the iteration's end twice.

Source: Zhang, Yeung, Shu, He and Wang, Efficient Memory Management for GPU-based Deep Learning Systems, arXiv
1903.06631, 2019: SmartPool; details after its code (junzhezhang/onlineColoring).

Steps.

1. Blocks are coloured by falling size, of equal size the earlier first: each lies in the tightest hole
   (``fit=first``: in the lowest) between the blocks that are coloured and alive at some time of its lifetime,
   or on top of them.
2. Blocks that cross the end of the iteration are coloured by themselves. What is allocated towards the end of
   an iteration meets, in the next one, what was allocated there, so their region is there twice, and
   successive iterations take turns. All other blocks lie above both.

A block crosses the end if it is alive at the first and at the last moment of its component, and away in
between, as a buffer of a periodic plan that has a gap. Its place here is in the upper region; the lower one,
which the iteration before uses, counts.

Abstracted: the search for the period in a trace of calls (the question has one iteration). The rule knows no
gaps of other blocks, which are taken to live on, and no pairs that may lie in place. Fixed offsets are kept,
but not beside blocks that cross the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ...models.errors import UsageError
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from .components import Components
from .greedy import placer
from .layout import Layout


def solve_smartpool(problem: Offsets, context: Context) -> Outcome:
    """Offer the allocation of the rule.

    Raises
    ------
    UsageError
        If offsets are fixed beside blocks that cross the iteration's end.
    """
    components = Components(problem, context)
    best_fit = context.options["fit"] == "best"
    for component in components.open():
        arrival = np.array(
            [problem.buffers.buffers[i].lower for i in component.data.numbers.tolist()], dtype=np.int64
        )
        components.offer(component, colour(component.data, arrival, best_fit))
    return components.outcome()


def colour(data: OffsetsData, arrival: Integers, best_fit: bool = True) -> Integers:
    """Return the offsets of a component in units, of blocks that arrive at some times."""
    crossing = crosses_the_end(data)
    if crossing.any() and (data.fixed >= 0).any():
        raise UsageError("smartpool: found fixed offsets beside buffers that cross the iteration's end")
    offsets = np.zeros(data.count, dtype=np.int64)
    around, others = np.flatnonzero(crossing), np.flatnonzero(~crossing)
    top = 0
    for _ in range(2 if len(around) else 0):  # the region, and its copy
        offsets[around] = _coloured(data, arrival, around, data.rectangles, top, best_fit)
        top = int((offsets + data.size)[around].max())
    offsets[others] = _coloured(data, arrival, others, None, top, best_fit)
    return offsets


def crosses_the_end(data: OffsetsData) -> NDArray[np.bool_]:
    """Return which blocks are alive at both ends of a component's time, and away in between."""
    full = (data.rect_low == 0) & (data.rect_high == np.repeat(data.size, np.diff(data.rectangles)))
    found = np.zeros(data.count, dtype=np.bool_)
    for i in np.flatnonzero(np.diff(data.rectangles) > 1).tolist():
        low, high = int(data.rectangles[i]), int(data.rectangles[i + 1])
        away = data.rect_last[low : high - 1] < data.rect_first[low + 1 : high]
        away |= full[low : high - 1] & full[low + 1 : high]  # they would be one if they touched
        ends = data.rect_first[low] == 0 and data.rect_last[high - 1] == data.sections
        found[i] = ends and away.any()
    return found


def _coloured(
    data: OffsetsData,
    arrival: Integers,
    some: Integers,
    rectangles: Integers | None,
    floor: int,
    best_fit: bool,
) -> Integers:
    """Return the offsets of some blocks above a floor, alive in their rectangles, or all their lifetimes."""
    first, last, owner = data.first[some], data.last[some], np.arange(len(some))
    if rectangles is not None:
        counts = rectangles[some + 1] - rectangles[some]
        owner = np.repeat(owner, counts)
        rows = rectangles[some][owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        first, last = data.rect_first[rows], data.rect_last[rows]
    size = np.append(data.size[some], floor)  # the floor is a block below all others
    fixed = np.append(data.fixed[some], 0)
    owner = np.append(owner, len(some))
    blocks = Layout(
        size=size,
        alignment=np.append(data.alignment[some], 1),
        fixed=fixed,
        rectangles=np.searchsorted(owner, np.arange(len(some) + 2)).astype(np.int64),
        rect_first=np.append(first, 0),
        rect_last=np.append(last, data.sections),
        rect_low=np.zeros(len(owner), dtype=np.int64),
        rect_high=size[owner],
        owner=owner,
        partner=np.zeros(0, dtype=np.int64),
        partner_at=np.zeros(len(some) + 2, dtype=np.int64),
    )
    order = np.lexsort((np.append(arrival[some], 0), -size, fixed < 0))
    found: Integers = placer(data)(blocks, order, np.full(len(size), -1, dtype=np.int64), best_fit)
    return found[:-1]

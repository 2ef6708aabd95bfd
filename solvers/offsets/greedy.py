"""Greedy allocation: a portfolio of orders, each with first fit and best fit.

Buffers are placed one by one, each into a hole that those before it leave; fixed ones first. The orders,
each by falling values, ties by falling size:

=============  =========================================================================================
``breadth``    bytes alive in the fullest section of the lifetime: "greedy by breadth" of TFLite
               (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020)
``size``       size: "greedy by size" of TFLite (there with best fit) and of TVM's unified static memory
               planner; the "spatial" order of XLA's ``GlobalDecreasingSizeBestFitHeap``
``area``       size times lifetime
``conflicts``  number of buffers alive at some time of the lifetime: "greedy by conflicts" of TVM's planner
``lifetime``   length of the lifetime: the "temporal" order of XLA's heap
``start``      the earliest first
``end``        the latest end first: the same backwards in time
``hint``       the lowest hint first, each at its hint if that is free; only if there are hints
=============  =========================================================================================

Before these come four passes of an allocator at run time, `place_as_they_come`: first fit and best fit,
forwards and backwards in time. They cost next to nothing, whatever the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ...formulations.offsets.data import OffsetsData, greatest_load
from ...models.arrays import Integers
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.kernels import is_loaded
from ..parts import Part
from .component_context import ComponentContext
from .components import BestOffsets, Components
from .first_come import PLAIN, place_as_they_come
from .layout import PAIR_SECONDS, Layout, is_short, layout
from .placing import place_plainly
from .turns import search_components

Place = Callable[[Layout, Integers, Integers, bool], Integers]

BUFFER_SECONDS = 3e-5
"""Seconds that placing takes for each buffer besides; what an allocator at run time takes in all, at most."""

GREEDY_KERNELS = (".offsets.first_come", ".offsets.placing_kernel")


def greedy_offsets(
    data: OffsetsData, remaining: Callable[[], float] = lambda: math.inf
) -> Iterator[tuple[str, Integers]]:
    """Yield the name and the offsets (units) of each greedy allocation of a component, one after the other.

    All obey alignments, fixed offsets, gaps and in-place pairs; none knows of the capacity.

    Parameters
    ----------
    remaining
        The seconds left: it ends where placing in one of the orders may take longer. Never before the passes
        of an allocator at run time.
    """
    places = layout(data)
    free = data.fixed < 0
    if (data.hint >= 0).any() and not is_short(data, remaining()):
        ranks = np.where(data.hint < 0, np.iinfo(np.int64).max, data.hint)
        order = np.lexsort((-data.size, ranks, free))
        yield "hint", placer(data)(places, order, data.hint, False)
    for backwards in (False, True):
        for best_fit in (False, True):
            name = f"run time, {'backwards, ' * backwards}{'best' if best_fit else 'first'} fit"
            yield name, place_as_they_come(data, best_fit=best_fit, backwards=backwards)
    place = placer(data)
    none = np.full(data.count, -1, dtype=np.int64)
    if is_short(data, remaining()):
        return  # before the orders are made
    for name, keys in greedy_keys(data).items():
        order = np.lexsort((data.first, -data.size, -keys, free))
        for best_fit in (False, True):
            if is_short(data, remaining()):
                return
            yield f"{name}, {'best' if best_fit else 'first'} fit", place(places, order, none, best_fit)


def greedy_keys(data: OffsetsData) -> dict[str, Integers]:
    """Return each order, the most promising first, as a value by buffer; the highest is placed first."""
    life = data.last - data.first
    starts, ends = np.sort(data.first), np.sort(data.last)
    conflicts = np.searchsorted(starts, data.last) - np.searchsorted(ends, data.first, side="right")
    return {
        "breadth": greatest_load(data),
        "size": data.size,
        "area": data.size * life,
        "conflicts": conflicts.astype(np.int64),
        "lifetime": life,
        "start": -data.first,
        "end": data.last,
    }


def solve_greedy(problem: Offsets, context: Context) -> Outcome:
    """Offer the allocations of the portfolio, component by component, until nothing is to be gained."""
    return search_components(Components(problem, context), (PLACE,))


def place(component: BestOffsets, context: ComponentContext) -> Outcome:
    """Offer the allocations of the portfolio until nothing is to be gained."""
    if len(component.data.rect_first) > PLAIN:
        context.prepare(GREEDY_KERNELS)
    for _, offsets in greedy_offsets(component.data, context.remaining):
        context.offer(offsets)
        if context.closed or context.expired:
            break
    return Outcome(reason="time" if context.expired else None)


def seconds_of_placing(count: int) -> float:
    """Estimate the time of placing so many buffers once."""
    return count * (BUFFER_SECONDS + PAIR_SECONDS * count)


PLACE = Part(
    name="greedy",
    run=".offsets.greedy:place",
    seconds=lambda component: component.data.count * BUFFER_SECONDS,
)


def placer(data: OffsetsData) -> Place:
    """Return the implementation that places a component's buffers one by one sooner."""
    from .placing_kernel import place

    sooner: Place = place if is_loaded(place) or len(data.rect_first) > PLAIN else place_plainly
    return sooner

"""`lns` for `makespan`: many list schedules, then windows of time scheduled anew, for large graphs.

First a fallback order within the memory (or the proof that there is no schedule), and bounds. Then in turns
(`lowtide.solvers.portfolio`):

1. On trees: MemBooking, from several activation orders, and a search over its two sequences.
2. Safe list schedules: rankings between the longest chain and the fallback order, each with several reaches
   of the fallback order.
3. Large-neighbourhood search in windows of time from the best of these, by annealing.
"""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from ....models.errors import UsageError
from ....models.problems.makespan import Makespan
from ...context import Context, Outcome
from ...parts import Part, per_op
from ...portfolio import run
from .method import Started, TimeIsUp, begin, ended, no_tree, rankings, relaxed_tree, scheduled, several_kinds
from .windows import improve_by_windows

REACHES = (4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512)
"""Places of the fallback order that may be looked at; and all."""

STAGNATION = 200_000
"""Windows, or moves of MemBooking, without a faster schedule, after which the search ends."""

seconds_of_lists = per_op(2_000)
"""Until list schedules, or searches that begin with one, have something to show."""


def solve_lns(problem: Makespan, context: Context) -> Outcome:
    """Search until the time is up, or for so many windows in a row without a faster schedule."""
    if words := several_kinds(problem):
        raise UsageError(f"method lns: {words}")
    started = begin(problem, context)
    if isinstance(started, Outcome):
        return started
    return run(large_parts(started, context.options["windows"]), problem, context)


def large_parts(started: Started, windows: int) -> tuple[Part, ...]:
    """Return the searches for large graphs: each ends after so many windows or moves in vain."""
    searches = partial(Part, seconds=seconds_of_lists)
    return (
        searches(name="MemBooking", run=partial(search_booking, started, moves=windows), refuses=no_tree),
        searches(name="list schedules", run=partial(list_rankings, started), refuses=several_kinds),
        searches(
            name="windows of time",
            run=partial(search_windows, started, windows=windows),
            refuses=several_kinds,
        ),
    )


def list_rankings(started: Started, problem: Makespan, context: Context) -> Outcome:
    """Offer the list schedules to begin with, those first that take little time or are often good."""
    data, fallback = started.data, np.array(started.order, dtype=np.int64)
    kept = list(rankings(problem, started))
    with contextlib.suppress(TimeIsUp):
        for reach in (data.n, *(reach for reach in REACHES if reach < data.n)):
            shop = started.shop._replace(numbers=started.shop.numbers.copy())
            shop.numbers[5] = reach
            for rank in kept:
                context.offer(tuple(scheduled(context, shop, fallback, rank).tolist()))
                if context.closed or context.expired:
                    return ended(context)
    return ended(context)


def search_windows(started: Started, problem: Makespan, context: Context, *, windows: int) -> Outcome:
    """Search in windows of time from the fastest schedule that is known."""
    improve_by_windows(
        started.shop,
        lambda: np.array(context.answer, dtype=np.int64),
        seed=context.seed,
        offer=lambda starts: context.offer(tuple(starts.tolist())),
        stop=lambda: context.closed or context.expired,
        windows=windows,
    )
    return ended(context)


def search_booking(started: Started, problem: Makespan, context: Context, *, moves: int) -> Outcome:
    """Search over the sequences of MemBooking."""
    from ..trees.booking_search import activation_orders, improve_by_booking

    tree = relaxed_tree(problem)
    improve_by_booking(
        tree,
        problem.count,
        sum(tree.needed) if problem.memory is None else problem.memory,
        [started.order, *activation_orders(problem, context, tree)],
        seed=context.seed,
        offer=lambda starts: context.offer(tuple(starts.tolist())),
        stop=lambda: context.closed or context.expired,
        moves=moves,
    )
    return ended(context)

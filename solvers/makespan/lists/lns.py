"""`lns` for `makespan`: many list schedules, then windows of time scheduled anew, for large graphs.

1. A fallback order within the memory (or the proof that there is no schedule), list schedules, bounds.
2. Safe list schedules: rankings between the longest chain and the fallback order, each with several reaches
   of the fallback order.
3. On trees: MemBooking, from several activation orders, and a search over its two sequences.
4. Large-neighbourhood search in windows of time from the best of these, by annealing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.errors import UsageError
from ....models.problems.makespan import Makespan, Starts
from ...context import Context, Outcome
from ...trees.task_tree import task_tree
from .method import Started, TimeIsUp, begin, rankings, scheduled
from .windows import improve_by_windows

REACHES = (4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512)
"""Places of the fallback order that may be looked at; and all."""

STAGNATION = 200_000
"""Windows, or moves of MemBooking, without a faster schedule, after which the search ends."""

FIRST = 0.1
"""Part of the time for list schedules."""

BOOKED = 0.3
"""Part of the time left for the search over MemBooking."""


def solve_lns(problem: Makespan, context: Context) -> Outcome:
    """Search until the time is up, or for so many windows in a row without a faster schedule."""
    if not problem.identical:
        raise UsageError(
            "method lns: found processors of several kinds or ops with a choice, expected neither"
        )
    windows = context.options["windows"]
    started = begin(problem, context)
    if isinstance(started, Outcome):
        return started
    improve_large(problem, context, started, windows=windows)
    return Outcome(reason="time" if context.expired and not context.closed else None)


def improve_large(
    problem: Makespan, context: Context, started: Started, *, windows: int = STAGNATION
) -> None:
    """Offer list schedules, on trees search MemBooking, then search in windows, until the time is up.

    Or until `windows` brought nothing.
    """
    enough = context.elapsed() + FIRST * context.remaining()
    with contextlib.suppress(TimeIsUp):
        for starts in first_schedules(problem, context, started):
            context.offer(starts)
            if context.closed or context.elapsed() >= enough:
                break
    if not (context.closed or context.expired):
        search_booking(problem, context, started, BOOKED, moves=windows)
    if context.closed or context.expired:
        return
    context.progress("windows of time")
    improve_by_windows(
        started.shop,
        np.array(context.answer, dtype=np.int64),
        seed=context.seed,
        offer=lambda starts: context.offer(tuple(starts.tolist())),
        stop=lambda: context.closed or context.expired,
        windows=windows,
    )


def first_schedules(problem: Makespan, context: Context, started: Started) -> Iterator[Starts]:
    """Yield the list schedules to begin with, those first that take little time or are often good."""
    data, fallback = started.data, np.array(started.order, dtype=np.int64)
    context.progress("list schedules")
    kept: list[Integers] = []
    for reach in (data.n, *REACHES):
        if reach > data.n:
            continue
        shop = started.shop._replace(numbers=started.shop.numbers.copy())
        shop.numbers[5] = reach
        for rank in rankings(problem, started) if reach == data.n else tuple(kept):
            if reach == data.n:
                kept.append(rank)
            yield tuple(scheduled(context, shop, fallback, rank).tolist())


def search_booking(
    problem: Makespan, context: Context, started: Started, part: float, *, moves: int = STAGNATION
) -> None:
    """Search over the sequences of MemBooking for a part of the time, if the graph is a tree."""
    try:
        tree = task_tree(replace(problem, graph=problem.relaxed, source=None), "mem-booking")
    except UsageError:
        return
    from ..trees.booking_search import activation_orders, improve_by_booking

    until = context.elapsed() + part * context.remaining()
    context.progress("MemBooking")
    improve_by_booking(
        tree,
        problem.count,
        sum(tree.needed) if problem.memory is None else problem.memory,
        [started.order, *activation_orders(problem, context, tree)],
        seed=context.seed,
        offer=lambda starts: context.offer(tuple(starts.tolist())),
        stop=lambda: context.closed or context.elapsed() >= until,
        moves=moves,
    )

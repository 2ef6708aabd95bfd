"""`list` for `makespan`: the sequential schedule, safe list schedules by several priorities, and bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....formulations.makespan.data import MakespanData, makespan_data
from ....models.arrays import Integers
from ....models.errors import UsageError
from ....models.problems.makespan import Makespan, Starts
from ...context import Context, Known, Outcome
from ...engines.supervise import run_passes
from ...trees.task_tree import TaskTree, task_tree
from ..bounds.bounds import critical_path, does_not_fit, raise_bounds, sequential_peak_counts
from ..bounds.chained_efforts import chained_efforts
from .fallback import find_fallback
from .layout import Shop, shop_of
from .priorities import MIXES, PRIORITIES, mixed, ranks

SLOW = 20_000
"""Above so many ops one list schedule can take longer than a second."""

WATCHED = 2000
"""Above so many ops a list schedule is made under the eyes of a clock."""

LEAST = 0.5
"""Seconds that the first one of such a graph has in any case, if it has no more than `SLOW` ops."""

SMALL = 60
"""Up to so many ops the first list schedules are made without a compiler."""


class TimeIsUp(Exception):
    """A list schedule was not ended before the time was up."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """What every method begins with."""

    context: Context
    """Whose limits hold for the list schedules of large graphs."""
    data: MakespanData
    shop: Shop
    order: tuple[int, ...]
    """The fallback order."""

    def list_schedule(
        self,
        rank: np.ndarray,
        order: Sequence[int] | None = None,
        prefer: Sequence[int] | None = None,
        *,
        compiled: bool = True,
        least: float = 0.0,
    ) -> Starts:
        """Return the answer that is the safe list schedule of a ranking.

        Parameters
        ----------
        rank
            By op, all different; the lowest goes first.
        order
            A fallback order; None: `self.order`.
        prefer
            By op, the alternative that it prefers; -1, or None for all: whichever would end first.
        least
            Seconds that it has in any case.

        Raises
        ------
        TimeIsUp
            If the graph is large and the time was up before the end.
        """
        fallback = np.array(self.order if order is None else order, dtype=np.int64)
        shop = self.shop
        if prefer is not None:
            shop = shop._replace(prefer=np.array(prefer, dtype=np.int64))
        if not compiled:
            from .list_kernel import schedule

            return tuple(schedule.py_func(shop, fallback, rank).tolist())
        return tuple(scheduled(self.context, shop, fallback, rank, least).tolist())


def scheduled(
    context: Context, shop: Shop, fallback: Integers, rank: Integers, least: float = 0.0
) -> Integers:
    """Return the safe list schedule of a ranking, made by the compiled kernel.

    Raises
    ------
    TimeIsUp
        If the graph is large and the time, but at least so many seconds, was up before the end.
    KeyboardInterrupt
        If Ctrl-C ended it.
    """
    from .list_kernel import schedule, schedule_until

    if len(fallback) <= WATCHED or context.time_limit is None:
        starts: Integers = schedule(shop, fallback, rank)
        return starts
    stop = np.zeros(1, dtype=np.int64)
    schedules: list[Integers] = []

    reason = run_passes(
        context, stop, lambda _: schedules.append(schedule_until(shop, fallback, rank, stop)), least
    )
    if reason == "interrupted":
        raise KeyboardInterrupt
    if not schedules or len(schedules[0]) < len(fallback):
        raise TimeIsUp
    return schedules[0]


def rankings(problem: Makespan, started: Started) -> Iterator[Integers]:
    """Yield the rankings that searches begin with, each made when it is its turn."""
    for name in PRIORITIES:
        yield ranks(name, problem, started.data, started.order)
    for weight in MIXES:
        yield mixed(weight, started.data, started.order)


def begin(
    problem: Makespan,
    context: Context,
    lists: Iterable[str] = (),
    data: MakespanData | None = None,
    *,
    search: bool = True,
    orders: Known | None = None,
) -> Started | Outcome:
    """Leave schedules, then bounds in the context, or return why there is no schedule (yet).

    Bounds take longer than schedules on large graphs, so only the critical path is first. Where the time is
    up after the schedules, the slowest bound is left out.

    Parameters
    ----------
    context
        Where schedules and bounds are left.
    lists
        The priorities of the list schedules that are made after the sequential one.
    data
        Of the problem, where the caller has them.
    search
        Whether to search for a fallback order where none that is found at once fits; if not, and none does,
        only the critical path bounds the makespan.
    orders
        What is known of such orders, from a call before.
    """
    data = data or makespan_data(problem)
    if (witness := does_not_fit(problem, data, lambda: context.expired)) is not None:
        return Outcome(infeasible=True, detail=witness)
    context.raise_bound(critical_path(data) * data.tick, kind="critical path")
    orders = orders or Known()
    order = find_fallback(problem, context, search=search, orders=orders)
    started = None
    if order is not None:
        context.offer(in_sequence(problem, order))
        started = Started(context=context, data=data, shop=shop_of(problem), order=order)
        offer_lists(problem, context, started, lists)
    if not context.closed and (search or started is not None):
        raise_bounds(problem, data, context)
        if not context.closed and not context.expired:
            efforts = chained_efforts(data, lambda: context.expired)
            context.raise_bound(efforts * data.tick, kind="chained efforts")
    if started is not None:
        return started
    assert problem.memory is not None
    least = 0 if orders.exact is None else orders.exact[0]
    if least > problem.memory and sequential_peak_counts(data):
        return Outcome(
            infeasible=True,
            detail=f"every order of the ops has a peak of at least {least} bytes, of {problem.memory}",
        )
    return Outcome(
        reason="time" if context.expired else None,
        detail=f"found no order of the ops within {problem.memory} bytes",
    )


def ended(context: Context) -> Outcome:
    """Return how a search ended: by itself, with a proof, or with the time."""
    return Outcome(reason="time" if context.expired and not context.closed else None)


def several_kinds(problem: Makespan) -> str:
    """Return why the problem is not one of identical processors; empty if it is."""
    if problem.identical:
        return ""
    return "found processors of several kinds or ops with a choice, expected neither"


def no_tree(problem: Makespan) -> str:
    """Return why the problem is not one of a tree and identical processors; empty if it is."""
    try:
        relaxed_tree(problem)
    except UsageError as error:
        return str(error)
    return several_kinds(problem)


def relaxed_tree(problem: Makespan) -> TaskTree:
    """Return the tree of a problem whose ops have no choice."""
    return task_tree(replace(problem, graph=problem.relaxed, source=None), "auto")


def take_first_steps(problem: Makespan, context: Context, data: MakespanData) -> Outcome | None:
    """Take bounds and list schedules, or with option ``start=none`` bounds alone.

    Returns
    -------
    Outcome | None
        How the solve ends, if that is enough; else None.
    """
    if context.options["start"] == "none":
        if (witness := does_not_fit(problem, data, lambda: context.expired)) is not None:
            return Outcome(infeasible=True, detail=witness)
        raise_bounds(problem, data, context)
    else:
        started = begin(problem, context, lists=PRIORITIES, data=data)
        if isinstance(started, Outcome) and started.infeasible:
            return started
    return Outcome() if context.closed else None


def in_sequence(problem: Makespan, order: Sequence[int]) -> Starts:
    """Return the answer that runs the ops one after another, each with the least workspace."""
    starts, now = [0] * len(order), 0
    chosen = [
        min(range(len(some)), key=lambda k: (some[k].workspace, some[k].duration))
        for some in problem.alternatives
    ]
    for i in order:
        starts[i] = now
        now += problem.alternatives[i][chosen[i]].duration
    return (*starts, *chosen) if problem.has_choice else tuple(starts)


def solve_list(problem: Makespan, context: Context) -> Outcome:
    """Offer the safe list schedule of each priority."""
    chosen = context.options["priority"]
    started = begin(problem, context, lists=PRIORITIES if chosen == "all" else [chosen])
    return started if isinstance(started, Outcome) else ended(context)


def offer_lists(problem: Makespan, context: Context, started: Started, names: Iterable[str]) -> None:
    """Offer the list schedules of some priorities; of smaller graphs the first also when the time is up."""
    for place, name in enumerate(names):
        if context.closed or (context.expired and (place or started.data.n > SLOW)):
            return
        context.progress(f"list schedule by {name}")
        rank = ranks(name, problem, started.data, started.order)
        try:
            least = 0.0 if place or started.data.n > SLOW else LEAST
            context.offer(started.list_schedule(rank, compiled=started.data.n > SMALL, least=least))
        except TimeIsUp:
            return

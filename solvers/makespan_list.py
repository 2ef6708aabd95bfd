"""`list` for `makespan`: the sequential schedule, safe list schedules by several priorities, and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..formulations.makespan_data import MakespanData, makespan_data
from ..models.errors import UsageError
from ..models.makespan import Makespan, Starts
from .algorithms.makespan.bounds import critical_path, does_not_fit, raise_bounds, sequential_peak_counts
from .algorithms.makespan.chained_efforts import chained_efforts
from .algorithms.makespan.fallback import find_fallback
from .algorithms.makespan.layout import Shop, shop_of
from .algorithms.makespan.priorities import PRIORITIES, ranks
from .context import Context, Outcome

SLOW = 20_000
"""Above so many ops one list schedule can take longer than a second."""

SMALL = 60
"""Up to so many ops the first list schedules are made without a compiler."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """What every method begins with."""

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
        compiled
            Whether to run the compiled kernel.
        """
        from .algorithms.makespan.list_kernel import schedule

        run = schedule if compiled else schedule.py_func
        fallback = np.array(self.order if order is None else order, dtype=np.int64)
        shop = self.shop
        if prefer is not None:
            shop = shop._replace(prefer=np.array(prefer, dtype=np.int64))
        return tuple(run(shop, fallback, rank).tolist())


def begin(
    problem: Makespan,
    context: Context,
    expired: Callable[[], bool] | None = None,
    lists: Iterable[str] = (),
) -> Started | Outcome:
    """Leave schedules, then bounds in the context, or return why there is no schedule (yet).

    Bounds take longer than schedules on large graphs, so only the critical path is first. Where the time is
    up after the schedules, the slowest bound is left out.

    Parameters
    ----------
    problem
        What is scheduled.
    context
        Where schedules and bounds are left.
    expired
        The search for a fallback order gives up when it holds; None: when the time is up.
    lists
        The priorities of the list schedules that are made after the sequential one.
    """
    data = makespan_data(problem)
    if (witness := does_not_fit(problem, data)) is not None:
        return Outcome(infeasible=True, detail=witness)
    context.raise_bound(critical_path(data) * data.tick, kind="critical path")
    found = find_fallback(problem, context, expired or (lambda: context.expired))
    started = None
    if found.order is not None:
        context.offer(in_sequence(problem, found.order))
        started = Started(data=data, shop=shop_of(problem), order=found.order)
        offer_lists(problem, context, started, lists)
    raise_bounds(problem, data, context)
    if not context.closed and not context.expired:
        context.raise_bound(chained_efforts(data) * data.tick, kind="chained efforts")
    if started is not None:
        return started
    assert problem.memory is not None
    if found.bound > problem.memory and sequential_peak_counts(data):
        return Outcome(
            infeasible=True,
            detail=f"every order of the ops has a peak of at least {found.bound} bytes, of {problem.memory}",
        )
    return Outcome(
        reason="time" if context.expired else None,
        detail=f"found no order of the ops within {problem.memory} bytes",
    )


def take_first_steps(problem: Makespan, context: Context, data: MakespanData) -> Outcome | None:
    """Take bounds and list schedules, or with option ``start=none`` bounds alone.

    Returns
    -------
    Outcome | None
        How the solve ends, if that is enough; else None.

    Raises
    ------
    UsageError
        If the option says something else.
    """
    first = context.options.get("start", "lists")
    if first not in ("lists", "none"):
        raise UsageError(f"option start: found {first!r}, expected lists or none")
    if (witness := does_not_fit(problem, data)) is not None:
        return Outcome(infeasible=True, detail=witness)
    if first == "none":
        raise_bounds(problem, data, context)
    else:
        started = begin(problem, context, lists=PRIORITIES)
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
    """Offer the safe list schedule of each priority.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:randwire?n=16&seed=1"), processors=2)
    >>> lt.solve(problem, "list").verification.valid
    True
    """
    chosen = context.options.get("priority", "all")
    if chosen not in (*PRIORITIES, "all"):
        raise UsageError(f"option priority: found {chosen!r}, expected all or one of {', '.join(PRIORITIES)}")
    started = begin(problem, context, lists=PRIORITIES if chosen == "all" else [chosen])
    if isinstance(started, Outcome):
        return started
    return Outcome(reason="time" if context.expired and not context.closed else None)


def offer_lists(problem: Makespan, context: Context, started: Started, names: Iterable[str]) -> None:
    """Offer the list schedules of some priorities; of smaller graphs the first also when the time is up."""
    for place, name in enumerate(names):
        if context.closed or (context.expired and (place or started.data.n > SLOW)):
            return
        context.progress(f"list schedule by {name}")
        rank = ranks(name, problem, started.data, started.order)
        context.offer(started.list_schedule(rank, compiled=started.data.n > SMALL))

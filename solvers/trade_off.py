"""The trade-off between memory and time: one solve for each of a few memories, what is known shared out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..models.checks import check_type
from ..models.errors import UsageError
from ..models.problems.problem import Problem
from ..models.problems.trade_off import TradeOff
from .method import load
from .registry import ROOMS, room_of

FEWEST = 2
"""Memories of a sweep at least: its two ends."""


def sweep_memory(
    problem: Problem,
    points: int = 8,
    *,
    method: str = "auto",
    time_limit: float | None = 60.0,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> TradeOff:
    """Return the trade-off between the memory and the makespan of a graph: schedules, and bounds below them.

    An interrupt (Ctrl-C) ends the sweep; what was found until then is returned.

    Parameters
    ----------
    problem
        Graph and processors, without a memory; or a graph to recompute.
    points
        Memories to look at, from that of a sequential schedule to that of the fastest one without limit;
        fewer, if less than that settles the whole curve.
    method, seed, threads, memory_limit, options
        Of each solve, as for `lowtide.solve`.
    time_limit
        Seconds for all solves together; None for no limit: then the search for a sequential order of the
        least peak ends only with its proof.
    progress
        Called with a line of text now and then.

    Returns
    -------
    TradeOff
        Verified schedules and proved bounds, by memory.

    Raises
    ------
    UsageError
        If the problem has a memory, a number is out of range, or the method or an option is unknown.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2)
    >>> curve = lt.sweep_memory(problem, 3, threads=1)
    >>> [(p.memory, p.makespan, p.bound) for p in curve.points], curve.least_memory
    ([(36, 7, 7), (43, 6, 6), (51, 5, 5)], 36)
    """
    if type(points) is not int or points < FEWEST:
        raise UsageError(f"sweep of memory: found {points!r} points, expected an integer >= {FEWEST}")
    kinds = tuple(room.problem for room in ROOMS.values() if room.trade_off)
    check_type(problem, kinds, "sweep of memory, problem")
    curve: TradeOff = load(room_of(problem).trade_off)(
        problem,
        points,
        method=method,
        time_limit=time_limit,
        seed=seed,
        threads=threads,
        memory_limit=memory_limit,
        options=options,
        progress=progress,
    )
    return curve

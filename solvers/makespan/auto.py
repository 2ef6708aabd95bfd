"""`auto` for `makespan`: list schedules and bounds, then searches and proofs in turns.

1. A fallback order within the memory, list schedules by every priority, bounds. Where no order is found at
   once that fits, the search for one and the CP-SAT model have turns; the search then goes on as follows.
2. A graph is cut where everything meets in one op (`lists.series`): the pieces, each solved as follows, and
   the searches for a schedule of the whole have turns.
3. Searches and proofs have turns (`lowtide.solvers.portfolio`). The searches, which have turns among
   themselves: list schedules of more rankings, on trees MemBooking, windows of time (`lists.lns`), local
   search over rankings and fallback orders, annealing of sequences on lanes towards the best bound
   (`lists.filling`). The proofs: on trees two-way labels, of large trees those of reduced ones; labels on the
   sets of started ops; bounds by the heaviest ops alone (`bounds.core`); CP-SAT with the fastest schedule as
   hint and all bounds.
"""

from __future__ import annotations

from functools import partial

from ...formulations.makespan import intervals_cpsat
from ...formulations.makespan.data import MakespanData, makespan_data
from ...models.errors import UsageError
from ...models.problems.makespan import Makespan
from ..context import Context, Known, Outcome
from ..parts import Part
from ..portfolio import run
from .bounds.core import bound_by_cores, no_cores
from .labels.method import no_labels, seconds_of_labels, set_labels
from .lists.filling import search_filling, seconds_of_filling
from .lists.lns import STAGNATION, large_parts, seconds_of_lists
from .lists.local_search import MOVES, search, seconds_of_search
from .lists.method import Started, begin, several_kinds
from .lists.priorities import PRIORITIES
from .lists.series import in_series, solve_in_series
from .models import solve_intervals
from .trees.two_way_method import no_two_way, two_way

TERMS_PER_SECOND = 2_000
"""Of the CP-SAT model, until it has something to show."""

BEHIND_LABELS = 60.0
"""Seconds until CP-SAT has more to show than labels have, where there are some: in experiment
``makespan_exact``, with a minute, it never had."""


def solve_auto(problem: Makespan, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    orders = Known()
    started = begin(problem, context, PRIORITIES, search=False, orders=orders)
    if isinstance(started, Started):
        return _improve(started, problem, context)
    if started.infeasible or context.expired:
        return started
    find = Part(name="search", run=partial(_find_order, orders))
    return run((find, _model(makespan_data(problem), "reservoir")), problem, context)


def _find_order(orders: Known, problem: Makespan, context: Context) -> Outcome:
    """Search for a fallback order, then for faster schedules."""
    started = begin(problem, context, PRIORITIES, orders=orders)
    return started if isinstance(started, Outcome) else _improve(started, problem, context)


def _improve(started: Started, problem: Makespan, context: Context) -> Outcome:
    searches = Part(name="searches", run=partial(_search, started), seconds=seconds_of_lists)
    pieces = in_series(problem)
    if len(pieces) > 1:
        return solve_in_series(pieces, problem, context, solve_auto, searches)
    return run((searches, *_proofs(started.data)), problem, context)


def _search(started: Started, problem: Makespan, context: Context) -> Outcome:
    """Give the searches for schedules turns."""
    moves = MOVES if context.time_limit is None else None
    parts = (
        *large_parts(started, moves or STAGNATION),
        Part(
            name="local search",
            run=partial(search, started, moves=moves),
            seconds=seconds_of_search,
        ),
        Part(
            name="filling",
            run=partial(search_filling, started),
            seconds=seconds_of_filling,
            refuses=several_kinds,
        ),
    )
    return run(parts, problem, context)


def _proofs(data: MakespanData) -> tuple[Part, ...]:
    """Return the parts that prove; what ends sooner comes first."""
    return (
        Part(name="two-way labels", run=two_way, seconds=seconds_of_labels, refuses=no_two_way),
        Part(name="labels", run=partial(set_labels, data), seconds=seconds_of_labels, refuses=no_labels),
        Part(
            name="cores",
            run=partial(bound_by_cores, solve=solve_auto),
            seconds=seconds_of_lists,
            refuses=_no_cores,
        ),
        _model(data),
    )


def _no_cores(problem: Makespan) -> str:
    by_labels = not no_labels(problem) or not no_two_way(problem)
    return "labels bound it" if by_labels else no_cores(problem)


def _model(data: MakespanData, form: str = "cumulative") -> Part:
    """Return the part that solves the CP-SAT model."""

    def refuses(problem: Makespan) -> str:
        try:
            intervals_cpsat.check(data, data.horizon)
        except UsageError as error:
            return str(error)
        return ""

    def seconds(problem: Makespan) -> float:
        own = intervals_cpsat.size(data, data.horizon).terms / TERMS_PER_SECOND
        return own if no_labels(problem) else max(own, BEHIND_LABELS)

    return Part(
        name="cpsat",
        run=lambda problem, context: solve_intervals(data, context, form),
        seconds=seconds,
        refuses=refuses,
        pauses=False,
    )

"""Exact search for minimum peak memory with efforts that grow, under limits that close in on the optimum.

Two searches complement each other. Each settles a limit: it ends with an order within the limit, or with
the proof that there is none and the least cost that was cut off, which bounds every peak; or it gives up.

* The search by descents (`lowtide.solvers.peak.search.descents`) takes independent parts one by one and
  remembers what it learns for every other limit. It starts at the bound and raises it, so the first
  order it finds is optimal. Trees, series-parallel and training graphs are its field.
* An exhaustive pass (`lowtide.solvers.peak.search.beam`) keeps every executed set that can be reached
  within the limit, up to free ops: little effort for each set, best where no part is independent. It
  first tries to settle the limit one byte below the incumbent: either outcome is progress, and failure
  closes the gap. Where that gives up, the limit is bisected between the bound and the incumbent. Passes go
  in both directions, first in the one that settled a limit last: on many graphs one of them meets a
  thousand times fewer sets. The lower the limit, the fewer sets; so a direction that gave up has its next
  try below that limit, or with more effort, and the worse one has none at the highest limit.

First there is a short search by descents. A round then is a beam that looks for better orders, exhaustive
passes, and a longer search by descents. Efforts grow from round to round, those of the passes faster,
because these are compiled from the second round on; the first round is in plain Python: a graph that it
settles does not wait for the compiled passes to load. Before the second round a walk over series-parallel
precedences (`lowtide.solvers.peak.series_parallel.spization`) and a local search over orders
(`lowtide.solvers.peak.orders.local_search`) improve the incumbent; before the third, pairs of ops are
probed (`lowtide.solvers.peak.bounds.probing`) on graphs where that takes seconds. Where the passes of the
first round get somewhere on a small graph, the compiled ones have their turn before a longer search by
descents.
"""

from __future__ import annotations

from collections.abc import Callable

from ....models.problems.peak import Peak
from ....models.units import format_bytes
from ...context import Context, Outcome
from ..bounds.cut_bound import cut_bound, working_set_bound
from ..bounds.probing import probing_bound
from ..orders.greedy import greedy_orders
from ..orders.local_search import improve_by_local_search
from ..series_parallel.spization import ROUNDS, walk_over_divisions
from .beam import beam_pass, improve_by_beam
from .descents import DescentSearch
from .passes import MEMORY
from .state_space import MASK_LIMIT, state_space

EFFORT = 40_000
"""Steps that a pass of the first round looks at before it gives up; it is in plain Python."""

SMALL, SMALL_EFFORT = 128, 10_000
"""On graphs of at most so many ops a pass of the first round gives up after so many steps: the compiled
passes of the second round, loading included, settle more in the time that is saved."""

SECOND_EFFORT = 5_000_000
"""Steps that a pass of the second round looks at, where passes are compiled."""

GROWTH = 16
"""The factor by which the steps of a pass grow from each later round to the next."""

DESCENTS = 4000
"""Effort (`DescentSearch.effort`) after which the search by descents gives up in the first round."""

DESCENTS_GROWTH = 8
"""The factor by which the effort of the search by descents grows from round to round: less than `GROWTH`,
since only passes are compiled."""

RUNS = 6
"""Runs of the local search, which end it where there is no time limit."""

PROBED = 300
"""Pairs of ops are probed on graphs of at most so many ops, for an eighth of the time that is left: the flows
of all pairs of larger graphs take longer."""

WIDEST = 2**31 - 1
"""Sets of one size that a pass can number, in 32 bits."""

PROMISING = 16
"""If no pass of a round gets through one in so many of the steps, those of the next round are left out."""

STEPS_PER_SET = 32
"""Effort of a pass for each set that a beam of the same round keeps per step: beams take less time."""

FINEST = 2000
"""Bisection ends when the interval is below this fraction of the incumbent."""


def solve_downsets(problem: Peak, context: Context) -> Outcome:
    """Prove an optimal order, or leave the best order and bound when time or memory end."""
    take_first_steps(problem, context)
    return widen(problem, context, lambda: context.expired)


def take_first_steps(problem: Peak, context: Context) -> None:
    """Leave what is cheap: the reference order, greedy orders, the largest working set, the cut bound.

    The cut bound may take a quarter of the time; on wide graphs of many thousand ops it needs more.
    """
    graph = problem.graph
    context.offer(range(len(graph.ops)))
    context.raise_bound(working_set_bound(graph), kind="working set")
    orders = []
    for order in greedy_orders(graph):
        if context.closed or context.expired:
            return
        context.offer(order)
        orders.append(order)
    if not context.closed:
        context.progress("cut bound")
        enough = context.elapsed() + context.remaining() / 4
        cut_bound(
            graph,
            orders,
            at_least=context.bound or 0,
            expired=lambda: context.elapsed() >= enough,
            improved=lambda value: context.raise_bound(value, kind="cut"),
        )


def widen(problem: Peak, context: Context, expired: Callable[[], bool], *, alone: bool = True) -> Outcome:
    """Run rounds until the bound meets the incumbent, the time is up, or the memory.

    The context must have an incumbent and a bound. Not `alone`: the walk, the local search and probing have
    their time from elsewhere.
    """
    graph, passes = problem.graph, _ExhaustivePasses(problem, context, expired)
    search = DescentSearch(graph) if len(graph.ops) <= MASK_LIMIT else None  # beyond it, masks are too large
    first = SMALL_EFFORT if len(graph.ops) <= SMALL else EFFORT
    effort, descents, tried, effective = first, DESCENTS, 0, True
    more = search is not None and _descend(context, search, descents, passes.nbytes, expired)
    while not context.closed and not expired():
        if effort == SECOND_EFFORT:
            context.prepare((".peak.search.pass_kernel",))
        if effort == SECOND_EFFORT and alone:
            _walk(problem, context, expired)
            _search_locally(problem, context, expired)
        elif effort == GROWTH * SECOND_EFFORT and alone and len(graph.ops) <= PROBED:
            _probe(problem, context, expired)
        context.progress(f"executed sets, {effort} steps a pass")
        width = max(1, effort // (STEPS_PER_SET * max(1, len(graph.ops))))
        improve_by_beam(problem, context, width, expired, effort)
        promising = passes.reach >= len(graph.ops) // PROMISING
        if promising or effort > GROWTH * tried:
            tried, effective = effort, passes.run(effort)
            promising = passes.reach >= len(graph.ops) // PROMISING
        if search is not None and more and not (promising and effort == SMALL_EFFORT):
            descents *= DESCENTS_GROWTH
            more = _descend(context, search, descents, passes.nbytes, expired)
        if not effective and not more and not context.closed and not expired():
            room = format_bytes(context.memory_limit or MEMORY)
            return Outcome(
                reason="memory", detail=f"the executed sets fill {room}; a larger --memory-limit holds more"
            )
        effort = SECOND_EFFORT if effort == first else GROWTH * effort
    return Outcome() if context.closed else Outcome(reason="time")


def _walk(problem: Peak, context: Context, expired: Callable[[], bool]) -> None:
    """Improve the incumbent by a walk over divisions, for a tenth of what is left of the time at most."""
    if len(problem.graph.ops) > MASK_LIMIT:
        return
    context.progress("walk over series-parallel precedences")
    enough = context.elapsed() + context.remaining() / 10
    walk_over_divisions(problem, context, ROUNDS, lambda: expired() or context.elapsed() >= enough)


def _search_locally(problem: Peak, context: Context, expired: Callable[[], bool]) -> None:
    """Improve the incumbent by local search, for a tenth of what is left of the time at most."""
    context.progress("local search")
    enough = context.elapsed() + context.remaining() / 10
    improve_by_local_search(problem, context, RUNS, expired=lambda: expired() or context.elapsed() >= enough)


def _probe(problem: Peak, context: Context, expired: Callable[[], bool]) -> None:
    """Raise the bound by probing pairs."""
    assert context.bound is not None
    assert context.incumbent is not None
    context.progress("probing pairs")
    enough = context.elapsed() + context.remaining() / 8
    probing_bound(
        problem.graph,
        at_least=context.bound,
        below=context.incumbent,
        expired=lambda: expired() or context.elapsed() >= enough,
        improved=lambda value: context.raise_bound(value, kind="probing"),
    )


def _descend(
    context: Context, search: DescentSearch, most: int, nbytes: int, expired: Callable[[], bool]
) -> bool:
    """Raise the bound by descents, then look for a better order, both towards either end.

    Returns whether there is memory for more.
    """
    for whole in (False, True):
        middle, spent = False, search.effort
        while not context.closed and search.nbytes <= nbytes:
            assert context.bound is not None
            assert context.incumbent is not None
            limit = (context.bound + context.incumbent) // 2 if middle else context.bound
            left = spent + most - search.effort
            found = search.decide(limit, whole=whole, most=left, expired=expired, nbytes=nbytes)
            if isinstance(found, int):
                context.raise_bound(min(found, context.incumbent), kind="descents")
            elif found is not None:
                context.offer(found)
            elif middle:
                break
            else:
                middle, spent = True, search.effort
    return search.nbytes <= nbytes


class _ExhaustivePasses:
    """Exhaustive passes that close in on the optimum, and which direction is the better one."""

    def __init__(self, problem: Peak, context: Context, expired: Callable[[], bool]) -> None:
        self.problem, self.context, self.expired = problem, context, expired
        self.nbytes = (context.memory_limit or MEMORY) // 2
        self._directions = [False, True]  # the better one first
        self._settled = False  # whether the better one is known
        self._gave_up: dict[bool, int] = {}  # in this round, from which limit on
        self._starved = True
        self.reach = 0  # the step that a pass of this round got to, of those that gave up

    def run(self, effort: int) -> bool:
        """Settle limits below the incumbent: the highest, the lowest, then by bisection.

        Where the lowest cannot be settled, those between cannot either. Returns whether more effort could
        settle more: whether any pass gave up for lack of effort.
        """
        context = self.context
        assert context.incumbent is not None
        assert context.bound is not None
        self._gave_up, self._starved, self.reach = {}, True, 0
        unsettled = context.incumbent  # the least limit that no pass could settle
        limit = context.incumbent - 1
        while not context.closed and context.bound <= limit and not self.expired():
            before = context.incumbent
            if not self._settle(limit, effort):
                if limit == context.bound:
                    break
                unsettled = limit
                limit = context.bound if limit == before - 1 else (context.bound + limit - 1) // 2
            elif context.incumbent < before and limit == before - 1:
                unsettled = limit = context.incumbent - 1  # from the top again
            else:
                highest = min(unsettled, context.incumbent) - 1
                if (highest - context.bound) * FINEST < context.incumbent:
                    break
                limit = (context.bound + highest) // 2
        return not self._starved

    def _settle(self, limit: int, effort: int) -> bool:
        """Return whether a pass found an order within the limit or proved there is none."""
        context = self.context
        assert context.incumbent is not None
        for backward in self._directions:
            if limit >= self._gave_up.get(backward, limit + 1):
                continue
            if limit == context.incumbent - 1 and self._settled and backward != self._directions[0]:
                continue
            space = state_space(self.problem.graph, backward=backward)
            found = beam_pass(
                space, limit, WIDEST, self.expired, exhaustive=True, most=effort, nbytes=self.nbytes
            )
            if found.gave_up is not None:
                self._gave_up[backward] = limit
                self.reach = max(self.reach, found.gave_up)
                self._starved = self._starved and found.out_of_memory
                continue
            self._directions, self._settled = [backward, not backward], True
            if found.order is not None:
                context.offer(found.order)
            elif found.bound is not None:
                context.raise_bound(min(found.bound, context.incumbent), kind="exhaustive pass")
            return True
        return False

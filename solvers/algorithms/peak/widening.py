"""Exact search for minimum peak memory with efforts that grow, under limits that close in on the optimum.

Two searches complement each other. Each settles a limit: it ends with an order within the limit, or with
the proof that there is none and the least cost that was cut off, which bounds every peak; or it gives up.

* The search by descents (`lowtide.solvers.algorithms.peak.descents`) takes independent parts one by one and
  remembers what it learns for every other limit. It starts at the bound and raises it, so the first
  order it finds is optimal. Trees, series-parallel and training graphs are its field.
* An exhaustive pass (`lowtide.solvers.algorithms.peak.beam`) keeps every executed set that can be reached
  within the limit, up to free ops, as long as no step has more than `width` of them: little effort for
  each set, best where no part is independent. It first tries to settle the limit one byte below the
  incumbent: either outcome is progress, and failure closes the gap. Where that gives up in both
  directions, the limit is bisected between the bound and the incumbent.

Then an ordinary beam of an eighth of the width looks for better orders. Efforts grow fourfold from round
to round.
"""

from __future__ import annotations

from collections.abc import Callable

from ....models.problem import Peak
from ...context import Context, Outcome
from .beam import beam_pass, improve_by_beam
from .cut_bound import cut_bound, working_set_bound
from .descents import DescentSearch
from .greedy import greedy_orders
from .state_space import MASK_LIMIT, state_space

FIRST_WIDTH = 128
WIDEST = 2**20
DESCENTS_PER_WIDTH = 30
"""Effort of the search by descents for each set per step of the passes."""

STEPS_PER_WIDTH = 10_000
"""Steps that a pass may look at for each set per step: keeps rounds short on wide graphs."""

MEMORY = 2**32
"""Bytes that a search may hold if the context does not say."""

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
    context.raise_bound(working_set_bound(graph))
    orders = []
    for order in greedy_orders(graph):
        if context.closed or context.expired:
            return
        context.offer(order)
        orders.append(order)
    if not context.closed:
        context.progress("cut bound")
        enough = context.elapsed() + context.remaining() / 4
        context.raise_bound(cut_bound(graph, orders, expired=lambda: context.elapsed() >= enough).value)


def widen(problem: Peak, context: Context, expired: Callable[[], bool], widest: int = WIDEST) -> Outcome:
    """Run rounds until the bound meets the incumbent, the time is up, or the memory.

    The context must have an incumbent and a bound.
    """
    memory = context.memory_limit or MEMORY
    widest = min(widest, max(FIRST_WIDTH, memory // _bytes_per_set(problem)))
    width, search = FIRST_WIDTH, None
    while not context.closed and not expired() and width <= widest:
        context.progress(f"executed sets, up to {width} per step")
        if len(problem.graph.ops) <= MASK_LIMIT:  # beyond it, the masks alone fill the memory
            search = search or DescentSearch(problem.graph)
            _descend(context, search, width * DESCENTS_PER_WIDTH, memory, expired)
        _round(problem, context, width, expired)
        improve_by_beam(problem, context, width // 8, expired, width * STEPS_PER_WIDTH)
        width *= 4
    if context.closed:
        return Outcome()
    return Outcome(reason="time" if expired() else "memory", detail=f"width {width // 4}")


def _bytes_per_set(problem: Peak) -> int:
    """Return about how much memory a pass needs for one more set per step."""
    space = state_space(problem.graph)
    return 2 * (1000 + space.n + 8 * len(space.groups)) + 100 * space.n


def _descend(
    context: Context, search: DescentSearch, most: int, memory: int, expired: Callable[[], bool]
) -> None:
    """Raise the bound by descents, then look for a better order, both towards either end."""
    for whole in (False, True):
        middle, spent = False, search.effort
        while not context.closed:
            assert context.bound is not None
            assert context.incumbent is not None
            limit = (context.bound + context.incumbent) // 2 if middle else context.bound
            left = spent + most - search.effort
            found = search.decide(limit, whole=whole, most=left, expired=expired, nbytes=memory)
            if isinstance(found, int):
                context.raise_bound(min(found, context.incumbent))
            elif found is not None:
                context.offer(found)
            elif middle:
                break
            else:
                middle, spent = True, search.effort


def _round(problem: Peak, context: Context, width: int, expired: Callable[[], bool]) -> None:
    """Settle limits below the incumbent, from the top, then by bisection."""
    assert context.incumbent is not None
    assert context.bound is not None
    given_up = context.incumbent  # the least limit that no pass could settle
    limit = context.incumbent - 1
    while not context.closed and context.bound <= limit and not expired():
        before = context.incumbent
        settled = _settle(problem, context, limit, width, expired)
        if context.closed:
            return
        if not settled:
            given_up = limit
        elif context.incumbent < before and limit == before - 1:
            given_up = limit = context.incumbent - 1  # from the top again
            continue
        highest = min(given_up, context.incumbent) - 1
        if (highest - context.bound) * FINEST < context.incumbent:
            return
        limit = (context.bound + highest) // 2


def _settle(problem: Peak, context: Context, limit: int, width: int, expired: Callable[[], bool]) -> bool:
    """Return whether a pass in either direction found an order within the limit or proved there is none."""
    for backward in (False, True):
        space = state_space(problem.graph, backward=backward)
        found = beam_pass(space, limit, width, expired, exhaustive=True, most=width * STEPS_PER_WIDTH)
        if found.order is not None:
            context.offer(found.order)
            return True
        if found.bound is not None:
            assert context.incumbent is not None
            context.raise_bound(min(found.bound, context.incumbent))
            return True
    return False

"""Widening search: exhaustive passes over executed sets, under limits that close in on the optimum.

An exhaustive pass (`lowtide.solvers.algorithms.beam`) under a limit keeps every executed set that can
be reached within it, up to free ops, as long as no step has more than `width` of them. It ends with an
order within the limit, or with the proof that there is none and the least cost that was cut off, which
bounds every peak; or it gives up. The fewer bytes the limit allows, the fewer sets there are.

A round has one width. It first tries to settle the limit one byte below the incumbent: either outcome
is progress, and failure closes the gap. Where that gives up in both directions, the limit is bisected
between the bound and the incumbent: failures raise the bound, orders lower the incumbent. Then an
ordinary beam of an eighth of the width looks for better orders. Widths grow fourfold from round to round.
"""

from __future__ import annotations

from collections.abc import Callable

from ...models.problem import Peak
from ..context import Context, Outcome
from .beam import beam_pass, improve_by_beam
from .cut_bound import cut_bound, working_set_bound
from .state_space import state_space

FIRST_WIDTH = 128
WIDEST = 2**20
FINEST = 2000
"""Bisection ends when the interval is below this fraction of the incumbent."""


def solve_downsets(problem: Peak, context: Context) -> Outcome:
    """Prove an optimal order, or leave the best order and bound when time or width end."""
    context.offer(range(len(problem.graph.ops)))
    context.raise_bound(working_set_bound(problem.graph))
    assert context.order is not None
    improve_by_beam(problem, context, FIRST_WIDTH // 8)
    cut = cut_bound(problem.graph, [context.order], expired=lambda: context.expired)
    context.raise_bound(cut.value)
    return widen(problem, context, lambda: context.expired)


def widen(problem: Peak, context: Context, expired: Callable[[], bool], widest: int = WIDEST) -> Outcome:
    """Run rounds until the bound meets the incumbent, the time is up, or the widest is done.

    The context must have an incumbent and a bound.
    """
    width = FIRST_WIDTH
    while not context.closed and not expired() and width <= widest:
        context.progress(f"executed sets, up to {width} per step")
        _round(problem, context, width, expired)
        improve_by_beam(problem, context, width // 8, expired)
        width *= 4
    if context.closed:
        return Outcome()
    return Outcome(reason="time" if expired() else "memory", detail=f"width {width // 4}")


def _round(problem: Peak, context: Context, width: int, expired: Callable[[], bool]) -> None:
    """Settle limits below the incumbent, from the top, then by bisection."""
    assert context.incumbent is not None
    assert context.bound is not None
    given_up = context.incumbent  # the least limit that no pass could settle
    limit = context.incumbent - 1
    while context.bound <= limit and not expired():
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
        found = beam_pass(space, limit, width, expired, exhaustive=True)
        if found.order is not None:
            context.offer(found.order)
            return True
        if found.bound is not None:
            assert context.incumbent is not None
            context.raise_bound(min(found.bound, context.incumbent))
            return True
    return False

"""`auto` for `placement`: plans of the planner and bounds by windows and prices, at the same time.

1. The sum of the durations as a bound, and release times where inputs may not start on the device, and the
   first plan of the planner; often they meet.
2. Bounds by windows and by linear programs in a thread of their own (with two threads or more), while
   the planner tries its other settings; with one thread the settings first, for half of the time.

Whole tensors: then the local search over decisions.

Single runs: bounds by windows, settings of the planner for a quarter of the time, then `slot-lp`, whose
programs grow with the square of the ops, or where there are too many for that, bounds by prices.

Where the planner gets stuck, policies and local search make the plan.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

from ..models.errors import UsageError
from ..models.placement import Placement
from .algorithms.placement.planner import (
    check_machine,
    first_plan,
    try_settings,
)
from .context import Context, Outcome
from .engines.supervise import stop_running
from .placement_local_search import solve_local_search
from .placement_samples import raise_by_samples, raise_first_bounds
from .placement_slots import solve_slots

MOST_OPS = 400
"""Of single runs that the slot model is tried for."""


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Stop as soon as a bound meets a plan, or when the settings and the programs are through."""
    check_machine(problem)
    raise_first_bounds(problem, context)
    context.progress("planner")
    if not problem.periodic:
        return _single_run(problem, context)
    found = first_plan(problem, context)
    if isinstance(found, str):
        return _without_planner(problem, context, found)
    context.offer(found)
    if context.closed:
        return Outcome()
    if context.threads < 2:
        half = context.elapsed() + context.remaining() / 2
        try_settings(problem, context, lambda: context.expired or context.elapsed() > half)
        raise_by_samples(problem, context)
        _search_whole(problem, context)
    else:
        failed: list[BaseException] = []

        def work() -> None:
            try:
                raise_by_samples(problem, context)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, name="lowtide bounds", daemon=True)
        thread.start()
        try_settings(problem, context, lambda: context.expired)
        _search_whole(problem, context)
        while thread.is_alive() and not context.closed and not context.expired:
            thread.join(0.1)  # in slices: Ctrl-C comes through
        stop_running(context)
        if failed:
            raise failed[0]
    return Outcome(reason="time" if context.expired and not context.closed else None)


def _single_run(problem: Placement, context: Context) -> Outcome:
    """Try settings of the planner, then improve plan and bound by the slot model, or the bound by prices."""
    raise_by_samples(problem, context, rounds=())
    until = context.elapsed() + context.remaining() / 4
    detail = try_settings(problem, context, lambda: context.expired or context.elapsed() > until)
    if context.closed:
        return Outcome()
    large = len(problem.graph.ops) > MOST_OPS
    outcome = raise_by_samples(problem, context) if large else solve_slots(problem, context)
    if context.answer is not None:
        _search_whole(problem, context)
    if context.answer is None and not context.expired and not outcome.infeasible:
        return _without_planner(problem, context, detail)
    return outcome if context.answer is not None or not detail else replace(outcome, detail=detail)


def _search_whole(problem: Placement, context: Context) -> None:
    """Search decisions on whole tensors: the planner is made for chunks, the slot model for bytes."""
    if problem.whole and not context.closed and not context.expired:
        with suppress(UsageError):  # a machine that the simulator does not serve
            solve_local_search(problem, context)


def _without_planner(problem: Placement, context: Context, why: str) -> Outcome:
    """Raise the bound by windows, then search from the policies on, then raise the bound further."""
    raise_by_samples(problem, context, rounds=())
    try:
        outcome = solve_local_search(problem, context)
    except UsageError as error:
        return Outcome(detail=f"{why}; {error}")
    if context.answer is None:
        return replace(outcome, detail=f"{why}; {outcome.detail}")
    if context.closed or context.expired:
        return outcome
    raised = raise_by_samples(problem, context)
    return replace(raised, detail=outcome.detail)

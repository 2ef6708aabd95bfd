"""Sequences of runs, where the order is free or ops may run again: each is a problem of its own.

A search looks for sequences by quick plans of the planner; the best one gets a plan with care, by `auto`.
With a time limit the two take turns, each as long as all before together; a search that has found a better
sequence in the second half of its turn goes on. Without a limit the search runs to its end first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ...models.derived.reordered import in_order
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from .reductions.orders import of_first
from .reductions.reruns import sequenced

Runs = tuple[int, ...]
"""Ops, in the order in which they run."""

Steps = Iterator[tuple[float, Runs]]
"""A search: yields how good the best sequence so far is, less being better, and that one, again and again."""

Solve = Callable[[Any, Context], Outcome]
"""Makes plans of the problem of a sequence."""


def of_sequence(problem: Placement, runs: Runs) -> tuple[Placement, Callable[[Plan], Plan]]:
    """Return the problem of a sequence, and what makes a plan of it one of the first problem."""
    graph = problem.graph
    if problem.order == "free":
        ordered = replace(problem, graph=in_order(graph, runs), order="reference")
        return ordered, lambda plan: of_first(plan, graph, runs)
    found = sequenced(graph, runs)
    return replace(problem, graph=found.graph, recompute=False), found.of_first


def sequence_of(plan: Plan) -> Runs:
    """Return the sequence of runs of a plan."""
    return tuple(run.op for run in sorted(plan.runs, key=lambda run: (run.start, run.op)))


def each_once(problem: Placement) -> Runs:
    """Return the sequence in which each op runs once, in the reference order."""
    return tuple(range(len(problem.graph.ops)))


def solve_as(
    problem: Any,
    context: Context,
    solve: Solve,
    restored: Callable[[Any], Plan],
    *,
    seconds: float = math.inf,
    prefix: str = "",
    bounds: bool = False,
) -> Outcome:
    """Solve another problem for at most so many seconds, and offer each better plan of it at once.

    Parameters
    ----------
    problem, solve
        The other problem, and what solves it.
    context
        Of the first problem.
    restored
        Makes an answer to the other problem a plan of the first.
    bounds
        Whether what is proved of the other problem holds of the first.
    """
    if (why := problem.impossible()) is not None:
        return Outcome(infeasible=bounds, detail=why)
    inner, taken = context.inner(problem, seconds, prefix), list[object]()

    def hand_on() -> None:
        if bounds and inner.bound is not None:
            context.raise_bound(inner.bound, inner.proof or "exact", kind=inner.bound_kind)
        if inner.answer is not None and not (taken and taken[-1] is inner.answer):
            taken.append(inner.answer)
            context.offer(restored(inner.answer))

    inner.changed = hand_on
    outcome = solve(problem, inner)
    return replace(outcome, infeasible=bounds and outcome.infeasible, facts={})


def place(
    problem: Placement, context: Context, runs: Runs, solve: Solve, seconds: float = math.inf
) -> Outcome:
    """Offer plans of a sequence, for at most so many seconds."""
    one, restored = of_sequence(problem, runs)
    return solve_as(one, context, solve, restored, seconds=seconds)


def search_and_place(problem: Placement, context: Context, steps: Steps, solve: Solve) -> Outcome:
    """Search for sequences and place the best one, in turn; see above.

    Parameters
    ----------
    steps
        The search. The sequence in which each op runs once, in the reference order, is left to others.
    solve
        Makes plans of a sequence with care.
    """
    began = bettered = context.elapsed()
    best, least, own, length = None, math.inf, each_once(problem), 0.0
    for value, best in steps:
        if context.closed or context.expired:
            break
        now = context.elapsed()
        least, bettered = value, now if value < least else bettered
        idle = 2 * (now - bettered) >= now - began > length
        if context.time_limit is not None and idle and best != own:
            place(problem, context, best, solve, now - began)
            began, length = context.elapsed(), 2 * (now - began)
    if best not in (None, own) and not (context.closed or context.expired):
        return place(problem, context, best, solve)
    return Outcome(reason="time" if context.expired and not context.closed else None)

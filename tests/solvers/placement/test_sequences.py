"""Sequences of runs as problems of their own: what is handed on, and how search and care take turns."""

from __future__ import annotations

from dataclasses import replace

import lowtide as lt
from lowtide.solvers.clock import Clock
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.parts import refusal
from lowtide.solvers.placement.auto import PARTS
from lowtide.solvers.placement.planner.method import planned, portfolio
from lowtide.solvers.placement.sequences import (
    Runs,
    Steps,
    each_once,
    of_sequence,
    search_and_place,
    sequence_of,
    solve_as,
)
from lowtide.solvers.placement.traits import traits
from tests.solvers.placement.machines import two_tiers

GRAPH = lt.load("catalogue:diamond")
FREE = lt.Placement(GRAPH, two_tiers(None, 10**9), start={}, order="free")
AGAIN = replace(FREE, order="reference", recompute=True)
OTHER = (0, 2, 1, 3)


def plan_of(problem: lt.Placement) -> lt.Plan:
    plan = planned(problem, portfolio(problem)[0])
    assert isinstance(plan, lt.Plan)
    return plan


def test_plans_of_a_sequence_are_plans_of_the_problem() -> None:
    for problem, runs in ((FREE, OTHER), (AGAIN, (0, 1, 1, 2, 3))):
        one, restored = of_sequence(problem, runs)
        assert one.freedoms == ()
        plan = restored(plan_of(one))
        assert sequence_of(plan) == runs
        assert not problem.judge(plan).violations


def test_each_better_plan_of_another_problem_is_handed_on_at_once() -> None:
    one, restored = of_sequence(FREE, OTHER)
    quick = plan_of(one)
    later = tuple(replace(run, start=run.start + 5, end=run.end + 5) for run in quick.runs)
    slow = replace(quick, runs=later, frees=())
    context = Context(problem=FREE, careful=True)

    def solve(problem: lt.Placement, inner: Context) -> Outcome:
        for plan in (slow, quick):
            inner.offer(plan)
            assert context.incumbent == inner.incumbent
        inner.raise_bound(10**6)
        return Outcome(infeasible=True, detail="told", facts={"many": 1})

    outcome = solve_as(one, context, solve, restored)
    assert outcome == Outcome(detail="told")
    assert context.bound is None  # that of one order
    assert [point.incumbent for point in context.trace] == [FREE.evaluate(slow), FREE.evaluate(quick)]


def test_search_and_care_take_turns_that_double() -> None:
    now, placed = [0.0], list[tuple[float, float]]()
    context = Context(problem=FREE, time_limit=100.0, clock=Clock(source=lambda: now[0]))

    def steps() -> Steps:
        for _ in range(50):
            now[0] += 1
            yield 7, OTHER

    def solve(problem: lt.Placement, inner: Context) -> Outcome:
        assert inner.time_limit is not None
        placed.append((now[0], inner.time_limit))
        now[0] += inner.time_limit
        return Outcome()

    search_and_place(FREE, context, steps(), solve)
    assert placed == [(2, 2), (9, 5), (25, 11), (59, 23), (91, 9)]
    assert context.expired


def test_without_a_limit_the_search_runs_to_its_end_first() -> None:
    for best, calls in ((OTHER, 1), (each_once(FREE), 0)):
        asked = list[lt.Placement]()

        def steps(best: Runs = best) -> Steps:
            yield from ((9, each_once(FREE)), (8, OTHER), (7, best))
            assert not asked  # noqa: B023

        def solve(problem: lt.Placement, inner: Context) -> Outcome:
            asked.append(problem)  # noqa: B023
            return Outcome()

        search_and_place(FREE, Context(problem=FREE), steps(), solve)
        assert len(asked) == calls


def test_parts_of_auto_are_those_of_the_question() -> None:
    free = {"bounds of every order", "own order", "least peak", "search over orders", "every order"}
    again = {"bounds at once", "each op once", "by price", "recomputed", "returns"}
    for problem, names in ((FREE, free), (AGAIN, again)):
        served = {part.name for part in PARTS if not refusal(part, problem, traits(problem))}
        assert served == names

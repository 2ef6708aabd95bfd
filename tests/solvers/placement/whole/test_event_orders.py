"""Lines of events: their times are those of plans that verify; annealing is as fast as exhaustive search."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole.intervals_cpsat import plan_of
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.placement.serial.search import serial_plan
from lowtide.solvers.placement.whole.event_orders import (
    ROUNDS,
    case_of,
    line_of,
    moves_of,
    search_lines,
    times_for,
)
from lowtide.solvers.placement.whole.event_orders_kernel import time_line
from tests.effort import seeds
from tests.oracles.brute_placement import fastest
from tests.oracles.random_placement import random_placement
from tests.problems.placement import tiny_placement
from tests.solvers.placement.slots.cases import plan_by, start_of

BOTH = pytest.mark.parametrize("accounting", list(lt.Accounting))


def context_of(problem: Placement) -> Context:
    """From the plan of `serial`, each better one judged."""
    context = Context(problem=problem)
    context.careful = True
    if (plan := serial_plan(problem, lambda: False)) is not None:
        context.offer(plan)
    return context


@BOTH
@pytest.mark.parametrize("seed", seeds(8, least=4))
def test_annealing_is_as_fast_as_exhaustive_search(seed: int, accounting: lt.Accounting) -> None:
    problem = tiny_placement(seed, accounting)
    context = context_of(problem)
    search_lines(problem, context, state_data(problem), math.inf)
    assert context.incumbent == fastest(problem.graph, problem.machine, start_of(problem))


def test_annealing_ends_when_rounds_in_a_row_find_nothing() -> None:
    """The lines of tiny problems are through long before any time limit."""
    problem, rounds = tiny_placement(0, lt.Accounting.COEXIST), list[str]()
    context = context_of(problem)
    context.time_limit = 3600.0

    def progress(line: str) -> None:
        rounds.append(line)
        assert len(rounds) < 20

    context.progress = progress
    search_lines(problem, context, state_data(problem), math.inf)
    assert len(rounds) >= ROUNDS


@BOTH
@pytest.mark.parametrize("seed", seeds(32, least=16))
def test_a_line_ends_no_later_than_its_plan_and_its_times_are_a_plan(
    seed: int, accounting: lt.Accounting
) -> None:
    problem = replace(random_placement(seed, ops=6, accounting=accounting), whole=True, periodic=False)
    found = plan_by(problem, "serial")
    if found is None:
        return
    data = state_data(problem)
    case = case_of(data)
    line = line_of(case, data, problem, found)
    if line is None:
        return
    end = time_line(case, line, times_for(case))
    assert end <= max(problem.evaluate(found), *(copy.end for copy in found.copies), 0)
    judgement = problem.judge(plan_of(data, moves_of(case, data, line, times_for(case)), problem))
    assert not judgement.violations
    assert judgement.objective is not None
    latencies = sum(c.latency_ns for c in problem.machine.channels)
    zeros = any(t.initial and not t.nbytes for t in problem.graph.tensors)
    assert judgement.objective <= end + zeros * latencies

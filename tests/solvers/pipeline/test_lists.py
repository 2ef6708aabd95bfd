"""List schedules of pipelines fit wherever one micro-batch does, and are no longer than one after another."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.pipeline.lists import list_orders
from lowtide.solvers.pipeline.rules import peaks
from lowtide.solvers.pipeline.trivial import one_at_a_time
from tests.effort import seeds
from tests.pipeline_problems import small


def test_schedules_fit_wherever_one_micro_batch_does() -> None:
    """Those of all priorities are within the memory, and there are none only where one does not fit."""
    listed = 0
    for seed in seeds(300, 60):
        problem = small(seed)
        line = problem.line
        alone = [sum(line.stages[s].activation for s in chunk) for chunk in line.chunks]
        fits = all(free is None or need <= free for need, free in zip(alone, problem.room, strict=True))
        found = list(list_orders(problem, lambda: None))
        assert bool(found) == fits, seed
        if not found:
            continue
        listed += 1
        times = [problem.timed(orders) for orders in found]
        for orders, starts in zip(found, times, strict=True):
            assert problem.judge(starts).objective == problem.evaluate(starts)
            assert problem.memory is None or max(peaks(line, orders)) <= problem.memory
        best = min(map(problem.evaluate, times))
        assert best <= problem.evaluate(next(one_at_a_time(problem)))
    assert listed > 20


@pytest.mark.parametrize(
    ("asked", "time"),
    [
        ("p=3&m=4&w=0&memory=1", 24),  # one after another: m (f + b) p
        ("p=8&m=64&w=0&memory=8", 142),  # as 1F1B: (m + p - 1) (f + b)
        ("p=4&m=16", 51),  # as ZB-H2: m (f + b + w) + p - 1
    ],
)
def test_schedules_take_the_closed_forms_where_these_are_best(asked: str, time: int) -> None:
    assert lt.solve(load_problem(lt.Pipeline, f"gen:stages?{asked}"), "list").objective == time


def test_a_memory_between_one_and_all_micro_batches_is_used() -> None:
    """Half of the activations of 1F1B take less than twice its time; nothing published fits."""
    problem = load_problem(lt.Pipeline, "gen:stages?p=8&m=64&w=0&memory=4")
    assert lt.solve(problem, "1f1b").objective is None
    found = lt.solve(problem, "list")
    assert found.objective is not None
    assert found.bound == 256  # each micro-batch holds a quarter of the first device for 2 p
    assert found.objective <= 262

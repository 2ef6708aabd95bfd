"""List schedules of pipelines fit wherever one micro-batch does, and are no longer than one after another."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.pipeline.lists import list_orders
from lowtide.solvers.pipeline.rules import peaks
from lowtide.solvers.pipeline.trivial import one_at_a_time
from tests.effort import seeds
from tests.problems.pipeline import small


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


def anywhere(seed: int) -> lt.Pipeline:
    """Return a pipeline of three devices with stages in any place, some of which keep nothing."""
    rng = Random(seed)
    places = [0, 1, 2, *(rng.randrange(3) for _ in range(rng.randint(0, 5)))]
    rng.shuffle(places)
    weight = rng.randint(0, 1)
    stages = [
        lt.Stage(
            device=d,
            forward=rng.randint(1, 4),
            backward=rng.randint(1, 4),
            weight=weight * rng.randint(1, 4),
            activation=(activation := rng.choice((0, 1, 2, 5))),
            kept=weight * rng.randint(0, activation),
            fixed=rng.randint(0, 2),
        )
        for d in places
    ]
    least = max(sum(x.activation + x.fixed for x in stages if x.device == d) for d in range(3))
    graph = lt.pipeline_graph(stages, rng.randint(1, 7))
    return lt.Pipeline(graph, least + rng.randint(0, 6), rng.choice((0, 2)), rng.choice(("makespan", "span")))


@pytest.mark.slow
def test_no_schedule_gets_stuck_wherever_the_stages_are() -> None:
    """With memory for one micro-batch, or little more, all ops run, and each device keeps to it."""
    for seed in seeds(400, 80):
        problem = anywhere(seed)
        found = list(list_orders(problem, lambda: None))
        assert found, seed
        for orders in found:
            judged = problem.judge(problem.timed(orders))
            assert judged.verification is not None
            assert judged.objective is not None, (seed, judged.verification.violations)


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

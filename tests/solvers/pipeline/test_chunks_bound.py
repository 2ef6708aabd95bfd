"""The bound of stages placed in any way, several on a device: no plan is below it, and some reach it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.pipeline.chunks_bound import chunks_bound
from lowtide.models.derived.layers import Choice, Joint, Layer, Way, stage_of
from tests.effort import seeds
from tests.solvers.pipeline.joint_cases import small

PLACES: dict[int, list[tuple[int, ...]]] = {
    2: [(0, 1)],
    3: [(0, 1, 0), (1, 0, 1)],
    4: [(0, 1, 0, 1), (0, 1, 1, 0)],
}
"""By number of stages: their devices; each one, in rounds, and there and back."""


def every(asked: Joint) -> Iterator[lt.Pipeline]:
    """Yield the pipelines of all stages in all of these places, with all that layers may keep."""
    count = len(asked.layers)
    for parts, places in PLACES.items():
        for cuts, homes in product(combinations(range(1, count), parts - 1), places):
            ends = [*pairwise((0, *cuts, count))]
            ways: list[list[Choice]] = [
                [None, *product(*(range(len(x.ways)) for x in asked.layers[i:j]))] for i, j in ends
            ]
            for choices in product(*ways):
                stages = [
                    stage_of(asked.layers[i:j], choice, home)
                    for (i, j), choice, home in zip(ends, choices, homes, strict=True)
                ]
                graph = lt.pipeline_graph(stages, asked.micro)
                yield lt.Pipeline(graph, asked.memory, asked.latency_ns)


def optimum(problem: lt.Pipeline) -> int | None:
    """Return the least makespan; None if the memory is too small."""
    result = lt.solve(problem, threads=1, time_limit=None)
    assert result.status in ("optimal", "infeasible")
    return result.objective


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(24))
def test_no_plan_of_stages_in_any_places_is_below_it(seed: int) -> None:
    rng = Random(seed)
    asked = replace(small(seed, rng.choice((3, 4))), micro=rng.choice((2, 3)))
    bound = chunks_bound(asked)
    problems = [*every(asked)]
    for problem in rng.sample(problems, min(6, len(problems))):
        least = optimum(problem)
        assert least is None or (bound is not None and bound <= least)


@pytest.mark.parametrize(("backward", "weight", "bound"), [(2, 0, 15), (1, 1, 13)])
def test_bounds_that_stages_in_some_places_reach(backward: int, weight: int, bound: int) -> None:
    asked = alike(Way(name="keep", backward=backward, weight=weight, activation=1, kept=0, buffer=0))
    assert chunks_bound(asked) == bound
    assert bound in map(optimum, every(asked))


@pytest.mark.parametrize(("seed", "micro", "bound"), [(8, 3, 10), (46, 3, 12)])
def test_higher_bounds_of_messages_or_weights_would_not_hold(seed: int, micro: int, bound: int) -> None:
    asked = replace(small(seed, 2), micro=micro)
    assert chunks_bound(asked) == bound
    assert bound in map(optimum, every(asked))


def test_where_memory_is_short_what_runs_again_counts() -> None:
    full = Way(name="full", backward=3, weight=0, activation=2, kept=0, buffer=0)
    keep = Way(name="keep", backward=2, weight=0, activation=4, kept=0, buffer=0)
    asked = replace(alike(keep, full), micro=3, memory=4)
    assert chunks_bound(replace(asked, memory=None)) == 20
    bound = chunks_bound(asked)
    assert bound is not None
    assert bound > 20
    fitting = [problem for problem in every(asked) if problem.impossible() is None]
    for problem in Random(0).sample(fitting, 4):
        least = optimum(problem)
        assert least is None or bound <= least


def test_states_that_no_devices_hold_are_refused() -> None:
    keep = Way(name="keep", backward=1, weight=0, activation=1, kept=0, buffer=0)
    asked = alike(keep)
    heavy = replace(asked, memory=3, layers=tuple(replace(x, states=9) for x in asked.layers))
    assert chunks_bound(heavy) is None
    nothing = tuple(replace(x, ways=(replace(keep, activation=0),)) for x in heavy.layers)
    assert chunks_bound(replace(heavy, layers=nothing)) is None
    assert chunks_bound(replace(asked, devices=5)) is None


def alike(*ways: Way) -> Joint:
    """Return a question of four layers on two devices."""
    layer = Layer(name="", forward=1, states=0, input=0, again=1, stash=1, ways=ways)
    return Joint(layers=(layer,) * 4, devices=2, micro=2, memory=None, latency_ns=0)

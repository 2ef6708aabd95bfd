"""The bound of stages placed in any way, several on a device: no plan is below it, and some reach it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.pipeline.chunks_bound import chunks_bound
from lowtide.models.derived.layers import Choice, Joint, Layer, Retention, stage_of
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


def stated(asked: Joint, rate: Fraction) -> int:
    """Return the bound as its page states it, with this weight of bytes times ns."""
    layers, p, m, c = asked.layers, asked.devices, asked.micro, asked.latency_ns
    least = [min(way.backward for way in x.ways) for x in layers]
    ahead = [sum(x.forward for x in layers[:i]) for i in range(len(layers))]
    behind = [sum(least[:i]) for i in range(len(layers))]
    rest = [sum(x.forward for x in layers[i:]) + sum(least[i:]) for i in range(len(layers))]
    bound = rest[0] + 2 * (p - 1) * c
    for i, x in enumerate(layers):
        bound = max(bound, ahead[i] + m * (x.forward + min(y.backward + y.weight for y in x.ways)))
        bound = max(bound, ahead[i] + m * (x.forward + least[i]) + behind[i])
    spare = 0 if asked.memory is None else p * asked.memory - sum(x.states for x in layers)
    for late in (0, 1):  # 1: without W
        work = Fraction(sum(ahead[i] + i * c + late * (behind[i] + i * c) for i in range(p)))
        for x, ns in zip(layers, rest, strict=True):
            again = Fraction(x.ways[0].backward + x.ways[0].weight + min(x.forward, x.again))
            kept = [y.backward + (0 if late else y.weight) + rate * ns * y.activation for y in x.ways]
            work += m * (x.forward + min(again, *kept))
        bound = max(bound, ceil(work / (p + rate * spare)))
    return bound


def test_it_is_the_greatest_that_its_page_states_over_all_weights() -> None:
    for seed in seeds(40):
        asked = replace(small(seed, 3), latency_ns=seed % 3)
        if asked.memory is not None:
            asked = replace(asked, memory=(asked.memory + sum(x.states for x in asked.layers)) // 2)
        whole = sum(x.forward + min(y.backward for y in x.ways) for x in asked.layers)
        spans = range(1, whole + 1 if asked.memory is not None else 1)
        rates = {Fraction(ns, span * nbytes) for ns in range(9) for span in spans for nbytes in range(1, 6)}
        assert chunks_bound(asked) == max(stated(asked, rate) for rate in {Fraction(0)} | rates)


@pytest.mark.slow
@pytest.mark.parametrize(("backward", "weight", "bound"), [(2, 0, 15), (1, 1, 13)])
def test_bounds_that_stages_in_some_places_reach(backward: int, weight: int, bound: int) -> None:
    asked = alike(Retention(name="keep", backward=backward, weight=weight, activation=1, kept=0, buffer=0))
    assert chunks_bound(asked) == bound
    assert bound in map(optimum, every(asked))


@pytest.mark.parametrize(("seed", "micro", "bound"), [(8, 3, 10), (46, 3, 12)])
def test_higher_bounds_of_messages_or_weights_would_not_hold(seed: int, micro: int, bound: int) -> None:
    asked = replace(small(seed, 2), micro=micro)
    assert chunks_bound(asked) == bound
    assert bound in map(optimum, every(asked))


@pytest.mark.slow
def test_where_memory_is_short_what_runs_again_counts() -> None:
    full = Retention(name="full", backward=3, weight=0, activation=2, kept=0, buffer=0)
    keep = Retention(name="keep", backward=2, weight=0, activation=4, kept=0, buffer=0)
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
    keep = Retention(name="keep", backward=1, weight=0, activation=1, kept=0, buffer=0)
    asked = alike(keep)
    heavy = replace(asked, memory=3, layers=tuple(replace(x, states=9) for x in asked.layers))
    assert chunks_bound(heavy) is None
    nothing = tuple(replace(x, ways=(replace(keep, activation=0),)) for x in heavy.layers)
    assert chunks_bound(replace(heavy, layers=nothing)) is None
    assert chunks_bound(replace(asked, devices=5)) is None


def alike(*ways: Retention) -> Joint:
    """Return a question of four layers on two devices."""
    layer = Layer(name="", forward=1, states=0, input=0, again=1, stash=1, ways=ways)
    return Joint(layers=(layer,) * 4, devices=2, micro=2, memory=None, latency_ns=0)

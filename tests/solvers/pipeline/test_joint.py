"""Partition, recomputation and schedule together: exhaustive search over all of them, and what bounds say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.pipeline.joint_bound import Joint, joint_bound
from lowtide.models.derived.layers import Choice, Layer, Way
from lowtide.models.derived.training_layers import training_layers
from lowtide.solvers.pipeline.joint import joint_plan, pipeline_for
from tests.effort import seeds
from tests.oracles.brute_pipeline import least


def small(seed: int, count: int | None = None) -> Joint:
    """Return a question on two devices that exhaustive search answers."""
    rng = Random(seed)
    split = rng.random() < 0.4
    layers = []
    for k in range(count or rng.choice((2, 3))):
        b, w, x = rng.randint(1, 3), split * rng.randint(0, 2), rng.randint(0, 1)
        stash, again = rng.randint(0, 4), rng.randint(1, 3)
        whole = Way(
            name="keep",
            backward=b,
            weight=w,
            activation=x + stash,
            kept=rng.randint(0, x + stash) if w else 0,
            buffer=rng.randint(0, 1),
        )
        ways = [whole]
        if stash and rng.random() < 0.8:
            buffer = whole.buffer + stash
            ways.append(
                Way(name="full", backward=b + w + again, weight=0, activation=x, kept=0, buffer=buffer)
            )
        layers.append(
            Layer(
                name=f"layer {k}",
                forward=rng.randint(1, 3),
                states=rng.randint(0, 2),
                input=x,
                again=again,
                stash=stash,
                ways=tuple(ways),
            )
        )
    memory = rng.randint(5, 14) if rng.random() < 0.9 else None
    return Joint(
        layers=tuple(layers),
        devices=2,
        micro=2 if split else 3,
        memory=memory,
        latency_ns=rng.choice((0, 1, 4)),
    )


def every(asked: Joint) -> Iterator[tuple[tuple[int, ...], tuple[Choice, ...]]]:
    """Yield all stages with all that their layers may keep."""
    count = len(asked.layers)
    for cuts in combinations(range(1, count), asked.devices - 1):
        ends = (*cuts, count)
        parts = [asked.layers[i:j] for i, j in pairwise((0, *ends))]
        for choices in product(*([None, *product(*(range(len(x.ways)) for x in part))] for part in parts)):
            yield ends, choices


def best_of_all(asked: Joint) -> int | None:
    """Return the least makespan over all stages, choices and schedules; None: nothing fits."""
    problems = (pipeline_for(asked, stages) for stages in every(asked))
    return min((v for p in problems if p.impossible() is None and (v := least(p)) is not None), default=None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 6])
def test_no_schedule_of_any_stages_is_below_the_bound_and_none_above_is_better(seed: int) -> None:
    asked = small(seed)
    best = best_of_all(asked)
    bound = joint_bound(asked, 10**6)
    found = joint_plan(asked, time_limit=60, also=[*every(asked)])
    if best is None:
        assert found.result is None
        return
    assert bound is not None
    assert bound <= best
    assert found.result is not None
    assert found.bound is not None
    assert (found.result.status, found.result.objective) == ("optimal", best)
    assert bound <= found.bound <= best
    assert found.result.verification is not None


@pytest.mark.parametrize(
    ("seed", "three", "bound"),
    [(8, False, 18), (9, False, 31), (36, False, 13), (84, False, 33), (52, True, 22)],
)
def test_bounds_that_a_schedule_reaches(seed: int, three: bool, bound: int) -> None:
    """Higher ones would not be: of larger buffers, a longer way to and fro, no stage that runs in one go."""
    asked = small(seed, 4 if three else None)
    if three:
        asked = replace(asked, devices=3, micro=2, memory=8)
    assert joint_bound(asked, 10**6) == bound
    problems = (pipeline_for(asked, stages) for stages in every(asked))
    values = (least(problem) for problem in problems if problem.impossible() is None)
    assert next((value for value in values if value is not None and value <= bound), None) == bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(16))
def test_bounds_hold_for_stages_and_schedules_at_random(seed: int) -> None:
    """More layers and devices, by the schedules of the rules alone: none is below the bound."""
    rng = Random(seed)
    asked = small(seed, 6)
    asked = Joint(
        layers=asked.layers,
        devices=rng.choice((2, 3, 4)),
        micro=rng.choice((2, 4, 5)),
        memory=rng.choice((None, 8, 14, 20, 30)),
        latency_ns=asked.latency_ns,
    )
    bound = joint_bound(asked, 10**6)
    looked = 0
    for stages in rng.sample([*every(asked)], 6):
        problem = pipeline_for(asked, stages)
        for method in ("1f1b", "gpipe"):
            result = lt.solve(problem, method)
            if result.objective is not None:
                looked += 1
                assert bound is not None
                assert bound <= result.objective
    assert looked or asked.memory is not None


@pytest.mark.slow
def test_without_memory_the_bound_is_met() -> None:
    layers = training_layers(lt.load("catalogue:gpt2-small-train")).layers
    asked = Joint(layers=layers, devices=2, micro=4, memory=None, latency_ns=10**5)
    found = joint_plan(asked, time_limit=60)
    assert found.result is not None
    assert found.result.objective == found.bound


def test_layers_that_no_memory_holds_are_refused_by_the_bound() -> None:
    asked = small(5)
    none = Joint(layers=asked.layers, devices=2, micro=2, memory=0, latency_ns=0)
    assert joint_bound(none, 10**6) is None
    found = joint_plan(none)
    assert (found.result, found.bound) == (None, None)

"""Partition, recomputation and schedule together: exhaustive search over all of them, and what bounds say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.pipeline import joint_bound as bounds
from lowtide.formulations.pipeline.joint_bound import joint_bound
from lowtide.models.derived.layers import Choice, Joint, Layer, Retention
from lowtide.models.derived.training_layers import training_layers
from lowtide.solvers.pipeline import joint
from lowtide.solvers.pipeline.joint import joint_plan, pipeline_for
from tests.effort import seeds
from tests.oracles.brute_pipeline import least
from tests.solvers.pipeline.joint_cases import small


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


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_a_micro_batch_alone_goes_to_the_last_stage_and_back(devices: int) -> None:
    """F and the quickest B of each layer, and a message to and fro between stages: nothing else waits."""
    keep = Retention(name="keep", backward=9, weight=0, activation=1, kept=0, buffer=0)
    layer = Layer(
        name="x", forward=5, states=1, input=1, again=5, stash=0, ways=(keep, replace(keep, backward=7))
    )
    asked = Joint(layers=(layer,) * 3, devices=devices, micro=1, memory=None, latency_ns=4)
    alone = 3 * (5 + 7) + 2 * (devices - 1) * 4
    assert joint_bound(asked, 10**6) == joint_bound(replace(asked, memory=10**3), 10**6) == alone
    assert joint_bound(asked, alone - 1) == alone - 1  # nobody asks beyond

    def expired() -> None:
        raise BuildTimeout

    assert joint_bound(asked, 10**6, expired) == alone


def larger(seed: int) -> Joint:
    """Return a question on three devices."""
    rng = Random(seed)
    asked = small(seed, rng.choice((4, 5, 6, 7)))
    return replace(asked, devices=3, micro=rng.choice((2, 3, 4, 5, 6)), memory=rng.randint(6, 30))


@pytest.mark.parametrize(
    ("seed", "ends", "choices", "bound"),
    [
        (851, (2, 5, 7), (None, (0, 0, 0), (0, 0)), 51),  # B of the least, in one go or in ways
        (697, (2, 3, 5), (None, (0,), (0, 0)), 81),  # a longer B leaves less room
        (826, (2, 4, 6), (None, None, (0, 0)), 103),
    ],
)
def test_bounds_of_three_devices_that_a_rule_reaches(
    seed: int, ends: tuple[int, ...], choices: tuple[Choice, ...], bound: int
) -> None:
    asked = larger(seed)
    assert joint_bound(asked, 10**6) == bound
    assert min(joint.schedules(pipeline_for(asked, (ends, choices))))[0] == bound


@pytest.mark.parametrize("seed", [182, 689, 736])
def test_no_cut_alone_has_a_lower_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all cuts of later stages the one with the least time of B counts."""
    asked = larger(seed)
    bound = joint_bound(asked, 10**6)
    assert bound is not None
    back, count = bounds._Data._back, len(asked.layers)
    alone = []
    for cuts in combinations(range(1, count), 2):
        stages = [*enumerate(pairwise((0, *cuts, count)))]

        def of_cut(data: Any, s: int, i: int, j: int, *more: Any) -> int | None:
            return back(data, s, i, j, *more) if (s, (i, j)) in stages else None  # noqa: B023

        monkeypatch.setattr(bounds._Data, "_back", of_cut)
        alone.append(joint_bound(asked, 10**6))
    assert bound == min(value for value in alone if value is not None)


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


@pytest.mark.slow
def test_when_the_time_is_up_there_is_what_was_found_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by a second with each look at it, in the midst of whatever is done."""
    clock = [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            clock[0] += 1
            return clock[0]

    asked = replace(small(3, 6), devices=3, micro=4, memory=30)
    whole = joint_plan(asked, time_limit=None)
    assert whole.result is not None
    assert whole.result.objective is not None
    assert whole.bound is not None
    monkeypatch.setattr(joint, "time", Clock)
    found = 0
    for limit in (1, 10, 50, 100, 200, 400, 800, 1600):
        clock[0] = 0
        plan = joint_plan(asked, time_limit=limit)
        assert clock[0] < limit + 20
        assert plan.bound is not None
        assert plan.bound <= whole.bound
        assert plan.reason in ("time", None)
        if plan.result is None:
            assert plan.reason == "time"
        else:
            found += 1
            assert plan.result.verification is not None
            assert plan.result.verification.valid
            assert plan.result.objective is not None
            assert plan.bound <= plan.result.objective
    assert 2 < found < 8


def test_where_no_stages_have_a_schedule_of_a_rule_the_time_is_not_blamed() -> None:
    found = joint_plan(replace(small(0), memory=5), time_limit=None)
    assert (found.result, found.bound, found.reason) == (None, 36, None)


def test_who_interrupts_a_search_without_a_limit_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def recorded(*arguments: Any, **options: Any) -> lt.Result:
        given.append(options)
        return lt.solve(*arguments, **options)

    monkeypatch.setattr(joint, "_improve", interrupted)
    monkeypatch.setattr(joint, "solve", recorded)
    found = joint_plan(small(3), time_limit=None, seed=5)
    assert (found.reason, given[0]["seed"]) == ("interrupted", 5)
    assert given[0]["time_limit"] is not None
    assert given[0]["time_limit"] <= joint.LEAST_SECONDS
    assert found.result is not None
    assert found.result.verification is not None
    assert found.result.verification.valid

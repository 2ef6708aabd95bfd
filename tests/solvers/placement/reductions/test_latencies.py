"""Times for the orders of a plan: valid, no later than they were, and latencies that pass side by side."""

from dataclasses import replace

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.planner.method import planned
from lowtide.solvers.placement.planner.setting import PlannerSetting
from lowtide.solvers.placement.reductions import latencies as timing
from lowtide.solvers.placement.reductions.latencies import FINE, is_ordered, timed, without_latencies
from tests.effort import seeds
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, random_graph, working_set

METHODS = ("belady", "autoswap", "demand-lru", "deeptm")


def case(seed: int) -> Placement:
    """A training iteration on a device with little room, latencies of the order of its ops."""
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    device = working_set(graph) + int(rng.integers(2, 20))
    bench = machine(device, [None, 30][seed % 2], latency=1 + 350 * (seed % 4), ssd=seed % 3 > 0)
    start = {"input": tuple(t.name for t in bench.tiers)}
    return Placement(graph, bench, periodic=seed % 4 > 0, start=start)


@pytest.mark.parametrize("seed", seeds(60))
def test_plans_without_latencies_become_valid_ones(seed: int) -> None:
    problem = case(seed)
    prompt, restored = without_latencies(problem)
    assert prompt.machine != problem.machine
    plans: list[lt.Plan | str | None] = [lt.solve(prompt, method).plan for method in METHODS]
    plans.append(planned(prompt, PlannerSetting(chunk=2, slots=0)))
    for plan in plans:
        if not isinstance(plan, lt.Plan):
            continue
        found = restored(plan)
        assert found is not None
        judgement = problem.judge(found)
        assert not judgement.violations, judgement.violations[0]
        assert judgement.objective is not None
        sooner = timed(prompt, plan)
        assert sooner is not None
        assert judgement.objective >= prompt.evaluate(sooner) * (1 - 2 / FINE) - 1


@pytest.mark.parametrize("seed", seeds(60))
def test_a_plan_of_the_problem_does_not_get_longer(seed: int) -> None:
    problem = case(seed)
    for method in METHODS:
        plan = lt.solve(problem, method).plan
        if plan is None:
            continue
        once = timed(problem, plan)
        assert once is not None
        assert not problem.judge(once).violations
        assert problem.evaluate(once) <= problem.evaluate(plan)
        again = timed(problem, once)
        assert again is not None
        assert problem.evaluate(again) >= problem.evaluate(once) * (1 - 2 / FINE) - 1


@pytest.mark.parametrize("seed", seeds(200, least=40))
def test_plans_on_small_machines_of_all_kinds_stay_valid(seed: int) -> None:
    problem = random_placement(seed, ops=8)
    if not is_ordered(problem):
        return
    for method in ("first-touch", "serial"):
        plan = lt.solve(problem, method).plan
        if plan is not None and (found := timed(problem, plan)) is not None:
            assert not problem.judge(found).violations
            assert problem.evaluate(found) <= problem.evaluate(plan)


def side_by_side(count: int, periodic: bool) -> Placement:
    """Tensors of 6 bytes, away while a large one is there; copies take 1 us each, and 700 ns before."""
    tensors = [lt.Tensor(name=f"t{k}", nbytes=6) for k in range(count)]
    tensors.append(lt.Tensor(name="large", nbytes=6 * count))
    ops = [lt.Op(name=f"make {k}", writes=(k,), duration_ns=1) for k in range(count)]
    ops.append(lt.Op(name="alone", writes=(count,), duration_ns=5))
    ops += [lt.Op(name=f"use {k}", reads=(k,), duration_ns=1) for k in range(count)]
    graph = lt.Graph(name="side by side", tensors=tuple(tensors), ops=tuple(ops))
    bench = machine(6 * count, None, latency=700, ssd=False)
    channels = tuple(replace(c, bytes_per_s=6_000_000) for c in bench.channels)
    return Placement(graph, replace(bench, channels=channels), periodic=periodic)


@pytest.mark.parametrize("periodic", [False, True])
def test_latencies_of_copies_pass_side_by_side(periodic: bool) -> None:
    count = 5
    problem = side_by_side(count, periodic)
    prompt, restored = without_latencies(problem)
    plan = lt.solve(prompt, "belady").plan
    assert plan is not None
    found = restored(plan)
    assert found is not None
    assert not problem.judge(found).violations
    # The first tensor is made, all leave behind one latency, and come back so; the last one is used.
    least = 1 + 700 + count * 1000 + 5 + 700 + count * 1000 + 1
    assert problem.evaluate(found) == pytest.approx(least, abs=1 + least / FINE)
    alone = lt.solve(problem, "belady").objective
    assert alone is not None
    assert alone > least + 2 * (count - 1) * 700 - 10


@pytest.mark.parametrize("part", ["limits", "bytes"])
def test_orders_matter(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without those of channels and tiers, or of bytes, plans are not valid."""
    if part == "bytes":
        monkeypatch.setattr(timing, "order_bytes", lambda *_: 0)
    else:
        monkeypatch.setattr(np, "union1d", lambda first, second: first[:0])
    broken = 0
    for seed in range(12):
        problem = case(seed)
        plan = lt.solve(problem, "belady").plan
        found = plan and timed(problem, plan)
        broken += bool(found and problem.judge(found).violations)
    assert broken

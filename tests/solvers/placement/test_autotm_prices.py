"""AutoTM's form by prices: the bound, at any prices, is at most the optimum, and plans are real."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.autotm_data import Form, autotm_data
from lowtide.solvers.placement.models.autotm_plan import emit
from lowtide.solvers.placement.models.autotm_prices import Dual, Point
from tests.effort import seeds
from tests.oracles.autotm_rules import fastest
from tests.solvers.placement.test_autotm import case

BESIDE = 10**8


def dual_of(problem: lt.Placement, form: str) -> Dual:
    return Dual(autotm_data(problem, Form(form), beside=(BESIDE, BESIDE)))


def any_point(dual: Dual, rng: np.random.Generator) -> Point:
    """Return random prices, and random sets of the third bound of a slot."""
    m = dual.arrays.tables
    beside, near, _ = rng.dirichlet([0.5] * 3, size=len(m.level)).T
    m.kept[:] = rng.integers(0, 2, len(m.kept))
    m.core[:] = rng.integers(0, m.duration.max() + 1, len(m.core))
    m.level[:] = m.core + np.bincount(dual.op_of, m.kept * m.slow.max(axis=1), len(m.core)).astype(np.int64)
    dual.own[:] = rng.integers(0, 2, len(dual.own))
    rent = rng.exponential(4, size=dual.rooms.shape) * (rng.random(dual.rooms.shape) < 0.6)
    return Point(rent, np.where(dual.moving, beside, 0.0), np.where(dual.moving, near, 0.0))


@pytest.mark.parametrize("seed", seeds(300))
def test_bound_is_at_most_the_optimum_and_plans_at_least(seed: int) -> None:
    form = ("static", "sync", "async", "async")[seed % 4]
    problem = case(seed // 4, in_place=Random(seed).random() < 0.7)
    best = fastest(problem, form, beside=BESIDE)
    dual = dual_of(problem, form)
    rng = np.random.default_rng(seed)
    for number in range(4):
        dual.plan(lambda: False)
        dual.ascend(15, 1.0, 0.7, lambda: False)
        value = dual.evaluate(any_point(dual, rng)) if number == 3 else None
        if best is not None:
            assert dual.bound <= best
            assert value is None or value <= best
        dual.adopt()
    dual.plan(lambda: False)
    solution = dual.solution()
    if best is None:
        assert solution is None
    elif solution is not None:
        plan = emit(problem, dual.arrays.data, *solution)
        judgement = problem.judge(plan)
        assert judgement.violations == ()
        assert judgement.objective is not None
        assert best <= judgement.objective <= dual.cheapest + len(problem.graph.ops)
        kept = dual.steps(judgement.objective)
        assert all(step in kept[w][i] for w, path in solution[0] if kept[w] for i, step in enumerate(path))
        # Without the steps that cost too much the optimum is still there.
        options = {"read-beside": str(BESIDE), "write-beside": str(BESIDE)} if form == "async" else {}
        result = lt.solve(
            problem, f"autotm-{form}", threads=1, options={**options, "rounds": "1", "steps": "40"}
        )
        assert result.objective == best


@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_bound_holds_for_large_sizes_and_times(seed: int) -> None:
    # bytes and ns times 2**32: products of prices and sizes come near 64 bits, and must not leave them
    small, factor = case(seed, in_place=True), 2**32
    best = fastest(small, "async")
    graph, machine = small.graph, small.machine
    tensors = tuple(replace(x, nbytes=x.nbytes * factor) for x in graph.tensors)
    ops = tuple(
        replace(
            op,
            duration_ns=op.duration_ns * factor,
            workspace=op.workspace * factor,
            modes=tuple(
                replace(mode, duration_ns=mode.duration_ns * factor, workspace=mode.workspace * factor)
                for mode in op.modes
            ),
        )
        for op in graph.ops
    )
    tiers = tuple(replace(x, capacity=x.capacity and x.capacity * factor) for x in machine.tiers)
    links = tuple(replace(c, latency_ns=c.latency_ns * factor) for c in machine.channels)
    large = replace(
        small,
        graph=replace(graph, tensors=tensors, ops=ops),
        machine=replace(machine, tiers=tiers, channels=links),
    )
    dual = Dual(autotm_data(large, Form.ASYNC))
    for _ in range(3):
        dual.ascend(40, 1.0, 0.7, lambda: False)
        dual.plan(lambda: False)
        dual.adopt()
    if best is not None:
        assert 0 < dual.bound <= best * factor
        rng = np.random.default_rng(seed)
        for power in range(-20, 40):
            point = any_point(dual, rng)
            value = dual.evaluate(point._replace(rent=point.rent * 2.0**power))
            paid = float((point.rent * 2.0**power * dual.rooms).sum())
            assert value is None or -1.01 * paid - 100 * best * factor <= value <= best * factor


def test_bounds_and_plans_meet_on_most_small_cases() -> None:
    met = found = 0
    for seed in range(40):
        problem = case(seed, in_place=True)
        if fastest(problem, "async", beside=BESIDE) is None:
            continue
        dual = dual_of(problem, "async")
        dual.plan(lambda: False)
        for _ in range(3):
            dual.ascend(60, 1.0, 0.7, lambda: False)
            dual.plan(lambda: False)
            dual.adopt()
        found += 1
        met += dual.world is not None and dual.bound >= 0.9 * dual.cheapest
    assert found >= 20
    assert met >= found // 4

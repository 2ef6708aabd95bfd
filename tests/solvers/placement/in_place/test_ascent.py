"""Ascent of prices, and moves of paths: bounds against exhaustive search, plans that stay whole."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.in_place.data import in_place_data
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.placement.in_place import method, plans
from lowtide.solvers.placement.in_place.ascent import PriceAscent
from lowtide.solvers.placement.in_place.plans import PathPlanner
from lowtide.solvers.placement.in_place.prices import InPlaceDual
from tests.effort import seeds
from tests.oracles.brute_in_place import fastest, random_in_place

CHAIN = "gen:chain?n=16&seed=1&node=optane&machine=optane-node&device=60B&periodic=1&start=anywhere"


@cache
def chain() -> lt.Placement:
    return load_problem(lt.Placement, CHAIN)


def ascended(problem: lt.Placement, rounds: int) -> tuple[PriceAscent, Context]:
    context = Context(problem=problem, threads=1)
    ascent = PriceAscent(InPlaceDual(in_place_data(problem), context))
    for _ in range(rounds):
        assert ascent.climb(context)
    return ascent, context


def usage(ascent: PriceAscent, price: Any) -> tuple[Any, float, Any]:
    """Return what the paths of `respond` need at prices: bytes, times; costs of the paths."""
    dual, slope, cost = ascent.dual, np.zeros(ascent.dual.chosen + len(ascent.dual.data.ranges)), 0.0
    prices, _ = dual.integers(dual.priced(price))
    for _, _, costs, rows, values in dual.respond(prices, None):
        slope += np.bincount(rows, values, minlength=len(slope))
        cost += float(costs.sum())
    assert dual.answered
    return slope[: dual.chosen], cost, dual.costs.copy()


@pytest.mark.parametrize("seed", seeds(100, least=10))
def test_paths_over_blocks_cost_what_paths_over_ops_do(seed: int) -> None:
    problem = random_in_place(seed, periodic=seed % 2 == 1) if seed % 10 else chain()
    dual = InPlaceDual(in_place_data(problem))
    if not dual.possible:
        return
    ascent, n = PriceAscent(dual), dual.data.n
    price = ascent._within(ascent.price * np.random.default_rng(seed).exponential(size=len(ascent.price)))
    slope, cost, costs = usage(ascent, price)
    assert ascent._gradient(price, 1.0)
    needs = ascent.needs
    near = np.concatenate([np.cumsum(x[:n]) for x in (needs.begin, needs.end)]) / dual.unit
    assert np.array_equal(dual.costs, costs)
    assert near.min() >= 0
    total = needs.cost[0] + needs.slope @ price + near @ price[: 2 * n]
    assert total == pytest.approx(cost + slope @ price, rel=1e-9)
    share = np.cumsum(needs.share)
    begin = dual.ranges.base + dual.ranges.begin
    held = np.add.reduceat(share, begin) * dual.ranges.size / dual.unit
    assert held.sum() == pytest.approx(near[:n].sum())


@pytest.mark.slow
def test_its_prices_prove_what_the_linear_program_proves() -> None:
    ascent, context = ascended(chain(), 8)
    while ascent.climb(context):
        pass
    bound = ascent.dual.evaluate(ascent.point())
    closed = lt.solve(chain(), "in-place", threads=1).bound
    assert bound is not None
    assert closed is not None
    assert 0.995 * closed <= bound <= closed


def test_its_value_is_the_bound_that_is_proved() -> None:
    ascent, _ = ascended(chain(), 3)
    bound = ascent.dual.evaluate(ascent.point())
    assert bound is not None
    assert ascent.value * ascent.dual.ns == pytest.approx(float(bound), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(100, least=20))
def test_its_bounds_are_none_of_a_slower_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "FEW_ROWS", 0)
    problem = random_in_place(seed)
    result, best = lt.solve(problem, "in-place", threads=1), fastest(problem)
    if best is None:
        assert result.plan is None
        return
    assert result.bound is not None
    assert result.bound <= best
    assert result.objective is None or result.objective >= best


def test_moves_keep_the_books_and_what_they_gain() -> None:
    problem = chain()
    ascent, context = ascended(problem, 4)
    planner = PathPlanner(problem, ascent.dual.data)
    planner.improve(ascent.point(), ascent.dual, ascent.share, context)
    planner.finish(context)
    ranges, n = planner.ranges, ascent.dual.data.n
    for plan in (planner.top, planner.state):
        room = planner.room.copy()
        for i, size in enumerate(ranges.size.tolist()):
            begin, end = int(ranges.begin[i]), min(n, int(ranges.end[i]) + 1)
            during = plan.during[ranges.base[i] + begin : ranges.base[i] + end]
            room[begin:end] -= size * ((during >= 0) & (during != 1))
        assert np.array_equal(room, plan.room)
        assert room.min() >= 0
    assert context.incumbent == planner.best


@pytest.mark.slow
def test_moves_find_what_paths_one_after_another_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_in_place(66)
    with monkeypatch.context() as patch:
        patch.setattr(plans, "COOLINGS", 0)
        before = lt.solve(problem, "in-place", threads=1).objective
    best = lt.solve(problem, "in-place", threads=1).objective
    assert best is not None
    assert before is not None
    assert fastest(problem) == best < before

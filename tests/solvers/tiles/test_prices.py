"""Prices of first runs, sequences of groups, and what they rest on."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.tiles.first_runs import convex_sets, links_of
from lowtide.solvers.tiles.groups import GroupCosts
from lowtide.solvers.tiles.prices import Column, lower_prices
from lowtide.solvers.tiles.segments import SegmentTable
from tests.effort import share
from tests.oracles.naive_tiles import joined, latency, optimum
from tests.problems.tiles import random_tiles


@pytest.mark.parametrize("seed", range(share(12, 4)))
def test_prices_bound_the_best_of_all_answers(seed: int) -> None:
    problem = random_tiles(9_000 + seed, most_ops=2)
    best = optimum(problem)
    result = lt.solve(problem, "prices", threads=1)
    if best is not None:
        assert result.status != "infeasible"
        assert result.bound is not None
        assert 0 < result.bound <= best * problem.scale


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(share(300, 30)))
def test_prices_bound_the_best_of_all_answers_of_more_ops(seed: int) -> None:
    problem = random_tiles(20_000 + seed, most_ops=3 if seed % 6 else 4)
    best = optimum(problem)
    result = lt.solve(problem, "prices", threads=1)
    if best is not None:
        assert result.status != "infeasible"
        assert result.bound is not None
        assert result.bound <= best * problem.scale
    found = lt.solve(problem, "local-search", threads=1, options={"steps": "300"})
    if found.plan is not None:
        assert best is not None
        checked = latency(problem, problem.read(found.plan))
        assert checked is not None
        assert checked * problem.scale == found.objective
        assert checked >= best


@pytest.mark.parametrize(("number", "ticks"), [(5, 4_401_717_248), (9, 2_120_094_842_880)])
def test_public_instances_are_optimal(number: int, ticks: int) -> None:
    problem = load_problem(lt.Tiles, f"catalogue:mlsys2026/{number}")
    result = lt.solve(problem, "fused-layer", threads=1)
    assert result.objective == ticks
    if number == 9:  # the other takes a second
        assert lt.solve(problem, "prices", threads=1).bound == ticks


def test_convex_sets_are_all_of_them() -> None:
    for seed in range(share(80, 20)):
        problem = random_tiles(seed, most_ops=4)
        given, costs, links = problem.shapes, GroupCosts(problem), links_of(problem.shapes)
        n = len(given.outputs)
        expected = {
            frozenset(ops)
            for size in range(1, n + 1)
            for ops in combinations(range(n), size)
            if joined(problem, ops)
            and costs.room(frozenset(ops)) <= given.capacity
            and not any(
                links.before[x] & {*ops} and links.behind[x] & {*ops} for x in range(n) if x not in ops
            )
        }
        found = [*convex_sets(costs, links)]
        assert len(found) == len({*found})
        assert {*found} == expected, seed


def test_lowered_prices_are_no_dearer_than_any_column() -> None:
    rng = Random(7)
    for _ in range(share(200, 40)):
        rows = rng.randint(1, 5)
        columns: list[Column] = [
            (rng.randint(0, 20), {r: rng.choice((-1, 1, 1)) for r in range(rows) if rng.random() < 0.7})
            for _ in range(rng.randint(1, 6))
        ]
        prices = [rng.randint(0, 30) for _ in range(rows)]
        before = list(prices)
        lower_prices(prices, columns)
        assert all(0 <= low <= high for low, high in zip(prices, before, strict=True))
        for cost, row in columns:
            assert sum(value * prices[r] for r, value in row.items()) <= cost


def test_segments_are_the_best_of_all_divisions_of_a_sequence() -> None:
    compared = 0
    for seed in range(share(120, 30)):
        problem = random_tiles(seed, most_ops=4)
        given, costs = problem.shapes, GroupCosts(problem)
        n = len(given.outputs)
        best = None
        for cuts in (c for size in range(n) for c in combinations(range(1, n), size)):
            parts = [range(a, b) for a, b in zip((0, *cuts), (*cuts, n), strict=True)]
            tiling = _tiling(costs, parts)
            value = None if tiling is None else latency(problem, tiling)
            if value is not None:
                best = value if best is None else min(best, value)
        table = SegmentTable(costs=costs, links=links_of(given), sequence=tuple(range(n)), keeps=False)
        ticks = table.fill()
        assert ticks == (None if best is None else best * problem.scale), seed
        if ticks is not None:
            assert problem.judge(table.tiling()).objective == ticks
            compared += 1
        keeping = SegmentTable(costs=costs, links=links_of(given), sequence=tuple(range(n)))
        kept = keeping.fill()
        if kept is not None:
            assert ticks is None or kept <= ticks
            assert problem.judge(keeping.tiling()).objective == kept
    assert compared > 5


def _tiling(costs: GroupCosts, parts: list[range]) -> lt.Tiling | None:
    """Return the groups in their best tiles; None if one is none."""
    groups = []
    for part in parts:
        ops = frozenset(part)
        if not joined(costs.problem, tuple(part)) or costs.ticks(ops) is None:
            return None
        groups.append(costs.group(ops))
    return lt.Tiling(groups=tuple(groups))


def test_generated_instances_depend_on_their_options_alone() -> None:
    spec = "gen:tiles?kind=branches&blocks=2&seed=3"
    assert lt.load_tiles(spec) == lt.load_tiles("gen:tiles", kind="branches", blocks=2, seed=3)
    assert lt.load_tiles(spec).sha256 != lt.load_tiles("gen:tiles?kind=branches&blocks=2&seed=4").sha256
    for kind, ops in (("mlp", 4), ("attention", 12), ("branches", 12)):
        assert len(lt.load_tiles(f"gen:tiles?kind={kind}&blocks=1").outputs) == ops
    with pytest.raises(lt.InstanceError, match="unknown option 'block'"):
        lt.load_tiles("gen:tiles?block=3")
    with pytest.raises(lt.InstanceError, match="expected mlsys or catalogue"):
        lt.load_tiles("gen:tile")


def test_local_search_depends_on_its_seed_alone() -> None:
    problem = load_problem(lt.Tiles, "gen:tiles?kind=branches&blocks=1&capacity=30000")
    one, other = (
        lt.solve(problem, "local-search", threads=1, seed=5, options={"steps": "40"}) for _ in range(2)
    )
    assert problem.read(one.plan) == problem.read(other.plan)


def test_a_picture_has_groups_kept_tensors_and_the_capacity() -> None:
    pytest.importorskip("matplotlib")
    problem = load_problem(lt.Tiles, "gen:tiles?kind=branches&blocks=2&capacity=120000")
    answer = problem.read(lt.solve(problem, "local-search", threads=1, options={"steps": "20"}).plan)
    kept = {t for group in answer.groups for t in group.keep}
    assert kept
    top, bottom = lt.plot.tiling(answer, problem, lt.plot.new_figure())
    assert [label.get_text() for label in top.get_yticklabels()][3:] == [f"tensor {t}" for t in sorted(kept)]
    assert [*np.asarray(bottom.lines[0].get_ydata())] == [problem.shapes.capacity] * 2
    boxes = [bar.get_path().get_extents(bar.get_patch_transform()) for bar in bottom.patches]
    assert [box.y1 for box in boxes[1::2]] == [*problem.verdict(answer).held]

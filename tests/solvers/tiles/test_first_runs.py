"""Answers built against steps of the proofs: no bound is above them, and nothing worse is called optimal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import lowtide as lt
from lowtide.models.tile_rules import MATMUL, POINTWISE, TileInstance
from lowtide.solvers.tiles.groups import GroupCosts


class Draft:
    """An instance that grows op by op."""

    def __init__(self) -> None:
        self.sides: list[tuple[int, int]] = []
        self.ops: list[tuple[tuple[int, ...], int, str, int]] = []

    def tensor(self, width: int, height: int) -> int:
        self.sides.append((width, height))
        return len(self.sides) - 1

    def matmul(self, a: int, b: int, cost: int = 1) -> int:
        out = self.tensor(self.sides[b][0], self.sides[a][1])
        self.ops.append(((a, b), out, MATMUL, cost))
        return out

    def pointwise(self, *tensors: int, cost: int = 1) -> int:
        out = self.tensor(*self.sides[tensors[0]])
        self.ops.append((tensors, out, POINTWISE, cost))
        return out

    def tiles(self, capacity: int, native: tuple[int, int], **readings: str) -> lt.Tiles:
        inputs, outputs, kinds, costs = zip(*self.ops, strict=True)
        instance = TileInstance(
            widths=tuple(w for w, _ in self.sides),
            heights=tuple(h for _, h in self.sides),
            inputs=inputs,
            outputs=outputs,
            base_costs=costs,
            op_types=kinds,
            capacity=capacity,
            bandwidth=1,
            native=native,
        )
        return lt.Tiles(instance, **readings)


def one_depth_as_a_whole() -> tuple[lt.Tiles, list[tuple[int, ...]]]:
    """What runs again has one depth only together: an op that is undecided makes a MatMul whole."""
    height, width, depth = 128, 16, 4
    d = Draft()
    m = d.matmul(d.tensor(2, height), d.tensor(width, 2))
    q = d.matmul(m, d.tensor(1, width))
    z, other = (d.matmul(q, d.tensor(width, 1)) for _ in range(2))
    f = d.matmul(d.tensor(height, depth), other)
    e = d.pointwise(f, d.matmul(d.tensor(height, depth), z))
    d.pointwise(m, z, other, d.matmul(d.tensor(depth, height), e))
    return d.tiles(150, (width, 1)), [(0, 1, 2, 3, 4, 5, 6), (7,), (0, 1, 2, 3, 8)]


def many_inputs_of_which_most_are_loaded() -> tuple[lt.Tiles, list[tuple[int, ...]]]:
    """A first run with more inputs than are told apart, beside another piece."""
    height, depth, many = 32, 32, 8
    d = Draft()

    def wide() -> int:
        return d.tensor(1, height)

    r = d.pointwise(wide())
    m = d.matmul(d.tensor(depth, height), d.matmul(d.tensor(height, depth), r, cost=33), cost=35)
    made = [d.pointwise(*(wide() for _ in range(4))) for _ in range(many)]
    d.pointwise(r, m, *made, *(wide() for _ in range(10)))
    d.pointwise(r, cost=21)
    groups = [(0, 1), (2,), *((3 + k,) for k in range(many)), (0, 3 + many, 4 + many)]
    return d.tiles(26, (1, 1)), groups


@pytest.mark.parametrize("build", [one_depth_as_a_whole, many_inputs_of_which_most_are_loaded])
def test_no_bound_is_above_an_answer_that_runs_ops_again(build: object) -> None:
    problem, groups = build()  # type: ignore[operator]
    best = judged(problem, groups)
    result = lt.solve(problem, "prices", threads=1)
    assert result.bound is not None
    assert 0 < result.bound <= best


def test_a_group_that_frees_the_fast_memory_is_worth_it() -> None:
    d = Draft()
    for _ in range(3):
        d.matmul(d.tensor(8, 2), d.tensor(16, 8))
    d.pointwise(d.tensor(1, 1))
    problem = d.tiles(19, (64, 64))
    costs, resident, groups = GroupCosts(problem), frozenset[int](), []
    for op, kept in ((0, {0}), (3, set[int]()), (1, {3}), (3, set[int]()), (2, {6})):
        groups.append(costs.group(frozenset({op}), resident, frozenset(kept)))
        resident = frozenset(kept)
    verdict = problem.judge(lt.Tiling(groups=tuple(groups)))
    assert verdict.verification.valid
    result = lt.solve(problem, "exact", threads=1)
    assert (result.status, result.objective) == ("optimal", verdict.objective)


def test_a_tile_in_the_place_of_a_slice_fits() -> None:
    d = Draft()
    d.pointwise(*(d.tensor(4, 4) for _ in range(3)))
    problem = d.tiles(3, (4, 4), place="shared")
    for method in ("exact", "auto"):
        assert lt.solve(problem, method, threads=1).status == "optimal"
    assert lt.solve(problem, "prices", threads=1).status != "infeasible"
    assert lt.solve(d.tiles(3, (4, 4)), "exact", threads=1).status == "infeasible"


def judged(problem: lt.Tiles, groups: Sequence[tuple[int, ...]]) -> int:
    """Return the ticks of groups in their best tiles, verified."""
    costs = GroupCosts(problem)
    verdict = problem.judge(lt.Tiling(groups=tuple(costs.group(frozenset(ops)) for ops in groups)))
    assert verdict.verification.valid
    assert verdict.objective is not None
    return verdict.objective

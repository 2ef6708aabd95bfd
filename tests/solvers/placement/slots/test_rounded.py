"""Whole bytes and ns near a solution of the slot model: as enumeration finds, and plans lose nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.linear_program import ProgramBuilder
from lowtide.formulations.placement.slots import rounded_cpsat as slots_near_cpsat
from lowtide.formulations.placement.slots import rounded_milp as slots_near_milp
from lowtide.formulations.placement.slots.rounded import near
from lowtide.formulations.placement.states import state_data
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.placement.slots import bytes as slots
from lowtide.solvers.placement.slots import rounded as slots_near
from lowtide.solvers.placement.slots.emission import _turns
from tests.effort import seeds
from tests.problems.placement import machine
from tests.solvers.placement.graphs import scaled, weights
from tests.solvers.placement.slots.near_programs import enumerated, found_by, random_program

LOADED = "onnx:squeezenet?train=1&batch=64&device=1000MiB&start=device&blocks={}&machine={}"


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("seed", seeds(60, least=10))
def test_both_models_find_what_enumeration_finds(seed: int, every: bool) -> None:
    program, point = random_program(seed)
    best = enumerated(program, point, every)
    for formulation in (slots_near_cpsat, slots_near_milp):
        assert found_by(formulation, program, point, every) == best


def test_values_that_break_a_row_or_leave_their_bounds_are_none() -> None:
    builder = ProgramBuilder(1, 1)
    builder.row([(builder.variable(5, 1, cost=1), 12)], 50, 1)
    model = near(builder.done(), [4.2], distance=3)
    assert [model.values(lambda j, d=d: d) for d in (0, 1, 2)] == [None, [5], None]  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["slot-lp", "cpsat"])
def test_real_plans_lose_nothing_by_rounding(method: str) -> None:
    """Twelve blocks of SqueezeNet's step: apart by rounding, optimal in whole bytes and ns."""
    problem = load_problem("placement", LOADED.format(12, "v100-16g-pcie3"))
    result = lt.solve(problem, method, threads=1, time_limit=None)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 74_282_223)


def test_without_whole_bytes_the_plan_is_apart_from_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "search_near", lambda *arguments: None)
    problem = load_problem("placement", LOADED.format(12, "v100-16g-pcie3"))
    result = lt.solve(problem, "slot-lp", threads=1, time_limit=None)
    assert result.status is lt.Status.FEASIBLE


def copies(*nbytes: int) -> list[tuple[Any, int, int]]:
    return [(None, 0, some) for some in nbytes]


@pytest.mark.parametrize(
    ("nbytes", "per_byte", "turns"),
    [
        ((3, 6), Fraction(2), [(1, 6), (1, 12)]),  # both end at whole ns
        ((1, 1), Fraction(3, 2), [(2, 3)]),  # 3 ns side by side, 4 one after the other
        ((1, 2, 1), Fraction(3, 2), [(1, 3), (2, 3)]),  # the second one ends at a whole ns by itself
        ((1, 2), Fraction(3, 2), [(1, 2), (1, 3)]),  # 4.5 ns take 5 either way
    ],
)
def test_copies_go_side_by_side_where_turns_take_longer(
    nbytes: tuple[int, ...], per_byte: Fraction, turns: list[tuple[int, int]]
) -> None:
    assert [(len(some), ns) for some, ns in _turns(copies(*nbytes), per_byte)] == turns


def test_only_what_is_near_its_bound_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is far from its bound does not lose by rounding: nothing is solved for it."""
    calls: list[Any] = []
    monkeypatch.setattr(slots_near, "_solved", lambda *arguments, **named: calls.append(arguments))
    problem = Placement(scaled(weights(10, 10, 10), 10_000), machine(200_000, None, ssd=False))
    data, context = state_data(problem), Context(problem=problem)
    found = slots.plan_in_rounds(problem, data, context, 8)
    assert found is not None
    context.offer(found.plan)
    assert context.incumbent is not None
    for bound, count in ((context.incumbent - 10**6, 0), (context.incumbent - 1, 2)):
        context.known.bound = bound
        slots_near.search_near(problem, context, data, found)
        assert len(calls) == count


@pytest.mark.parametrize(
    ("engine", "rate"), [("highs", 3 * 10**9 + 1), ("cpsat", 10**9 + 1), ("cpsat", 10**18 + 1)]
)
def test_large_factors_are_no_error(engine: str, rate: int) -> None:
    """HiGHS solves such models in other units; CP-SAT none whose sums leave 64 bits."""
    builder = ProgramBuilder(1, 1)
    stall, sent = builder.variable(10**6, 1, cost=1), builder.variable(10**6, 1)
    builder.row([(stall, rate), (sent, -(10**9))], 0, 1)
    builder.row([(sent, 1)], 700, 1)
    least = -(-700 * 10**9 // rate)
    model = near(builder.done(), [least + 1.0, 700.0], distance=slots_near.DISTANCE)
    own = Context(problem=slots_near.Rounding(weights(1)), threads=1, time_limit=None)

    def answer(values: list[int] | None) -> slots_near.Stalled | None:
        return None if values is None else slots_near.Stalled(time=values[stall], values=values)

    solve = slots_near.by_highs if engine == "highs" else slots_near.by_cpsat
    solve(model, own, answer, model.stall, False)
    assert own.incumbent == (None if rate >= 10**18 else least)

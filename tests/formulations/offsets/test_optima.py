"""Every formulation of offset allocation has the optimum of the brute force, with every feature."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.offsets import orders_milp as offsets_milp
from lowtide.formulations.offsets import rectangles_cpsat as offsets_cpsat
from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.models.buffers import Buffer, Buffers, Gap
from tests.problems.offsets import FORMULATIONS, battery, least_height, solve_part

each_formulation = pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
CPSAT = [FORMULATIONS["cpsat"], FORMULATIONS["cpsat-sections"]]
BATTERY = battery(80)


def part(*buffers: Buffer, **options: object) -> OffsetsData:
    (data,) = offsets_data(Buffers(buffers=buffers, **options))  # type: ignore[arg-type]
    return data


@pytest.mark.slow
@each_formulation
def test_optimum_is_that_of_the_brute_force(formulation: ModuleType) -> None:
    for buffers, least in BATTERY:
        assert least_height(formulation, buffers) == least, buffers


@pytest.mark.parametrize("formulation", CPSAT)
def test_without_objective_feasible_if_and_only_if_something_fits(formulation: ModuleType) -> None:
    for buffers, least in BATTERY:
        found = least_height(formulation, buffers, minimize=False)
        assert (found is None) == (least is None), buffers


STAR = (
    Buffer(id="c", lower=0, upper=6, size=3),
    Buffer(id="x", lower=1, upper=3, size=2),
    Buffer(id="y", lower=2, upper=5, size=2),
    Buffer(id="z", lower=5, upper=7, size=3),
)


@each_formulation
def test_upper_and_lower_limits_are_kept(formulation: ModuleType) -> None:
    data = part(*STAR)
    assert solve_part(formulation, data, upper=6) is None
    found = solve_part(formulation, data, lower=8, upper=9)
    assert found is not None
    assert found[0] == 8
    assert data.height(np.array(found[2])) <= 8


@each_formulation
@pytest.mark.parametrize(
    ("pairs", "least"),
    [
        ((), 7),
        ((("c", "x"),), 6),
        ((("c", "z"),), 7),
        ((("c", "x"), ("c", "y")), 6),
        ((("c", "x"), ("c", "y"), ("c", "z")), 5),
        ((("c", "x"), ("c", "y"), ("x", "y")), 6),
        ((("c", "x"), ("c", "y"), ("x", "y"), ("z", "c")), 3),
    ],
)
def test_star_and_clique_of_pairs(
    formulation: ModuleType, pairs: tuple[tuple[str, str], ...], least: int
) -> None:
    """Leaves x and y meet, so only one of them can share the address of c, unless they are a pair."""
    assert least_height(formulation, Buffers(buffers=STAR, inplace=pairs)) == least


@each_formulation
def test_order_may_change_from_section_to_section(formulation: ModuleType) -> None:
    """First a below what b has left, then b above what a has left; then the other way round."""
    a = Buffer(id="a", lower=0, upper=4, size=4, gaps=(Gap(0, 2, 0, 1), Gap(2, 4, 3, 4)))
    b = Buffer(id="b", lower=0, upper=4, size=4, gaps=(Gap(0, 2, 1, 2), Gap(2, 4, 2, 3)))
    assert least_height(formulation, Buffers(buffers=(a, b))) == 4
    fixed = Buffers(buffers=(replace(a, offset=0), replace(b, offset=0)))
    assert least_height(formulation, fixed) == 4
    clash = Buffers(buffers=(replace(a, offset=0), replace(b, offset=1)))
    assert least_height(formulation, clash) is None


@each_formulation
def test_hint_gives_every_variable_a_value_that_is_feasible(formulation: ModuleType) -> None:
    twins = (*STAR, *(Buffer(id=f"t{k}", lower=1, upper=4, size=2, alignment=4) for k in range(2)))
    data = part(*twins, inplace=(("c", "x"),))
    found = solve_part(formulation, data)
    assert found is not None
    offsets = np.array(found[2])
    offsets[-2:] = offsets[[-1, -2]]  # twins exchanged: put in order again
    built = formulation.build(data, hint=offsets)
    if formulation is offsets_milp:
        import pyomo.environ as pyo

        assert all(v.value is not None for v in built.model.component_data_objects(pyo.Var))
        for row in built.model.component_data_objects(pyo.Constraint):
            assert row.lslack() >= 0
            assert row.uslack() >= 0
    else:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.catch_sigint_signal = False
        solver.parameters.fix_variables_to_their_hinted_value = True
        assert solver.solve(built.model) == cp_model.OPTIMAL
        assert solver.objective_value == found[0]
        assert len(built.model.proto.solution_hint.vars) == len(built.model.proto.variables)


@pytest.mark.parametrize("formulation", CPSAT)
def test_search_from_the_bottom_up_finds_the_optimum(formulation: ModuleType) -> None:
    for buffers, least in BATTERY[:20]:
        for data in offsets_data(buffers):
            with_order = solve_part(formulation, data, order=range(data.count)[::-1])
            without = solve_part(formulation, data)
            assert (with_order and with_order[0]) == (without and without[0])
            assert without is not None or least is None


@each_formulation
def test_large_sizes_are_exact(formulation: ModuleType) -> None:
    big = 10**9 + 7
    data = part(
        Buffer(id="a", lower=0, upper=2, size=3 * big + 1),
        Buffer(id="b", lower=1, upper=3, size=2 * big, alignment=1024),
        Buffer(id="c", lower=2, upper=4, size=5 * big - 3),
    )
    found = solve_part(formulation, data)
    assert found is not None
    exact = solve_part(offsets_cpsat, data)
    assert exact is not None
    assert found[0] == exact[0] == data.height(np.array(found[2]))


@each_formulation
def test_building_stops_when_the_time_is_up(formulation: ModuleType) -> None:
    calls = iter([False, False, True])
    with pytest.raises(BuildTimeout):
        formulation.build(part(*STAR), expired=lambda: next(calls, True))


@each_formulation
def test_size_counts_terms(formulation: ModuleType) -> None:
    small, large = part(*STAR[:1]), part(*STAR)
    assert 0 < formulation.size(small).terms < formulation.size(large).terms

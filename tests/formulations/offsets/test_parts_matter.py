"""Leaving out a numbered constraint of offset allocation, or a constant in place of decode, is noticed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from lowtide.formulations.offsets import orders_milp as offsets_milp
from lowtide.formulations.offsets.data import offsets_data
from lowtide.models.buffers import Buffer, Buffers
from tests.offsets_solving import FORMULATIONS, WrongSolution, battery, least_height, solve_part

SKEWED = Buffers(
    buffers=(
        Buffer(id="a", lower=0, upper=2, size=3, offset=0),
        Buffer(id="b", lower=1, upper=3, size=3, offset=1),
    ),
    inplace=(("a", "b"),),
)
"""A pair that overlaps and does not share its address."""

BATTERY = [*battery(60), (SKEWED, None)]

SYMMETRY = "twins_in_order"
"""The constraint that changes no optimum."""

NUMBERED = [
    pytest.param(formulation, number, id=f"{name}-{number + 1}-{constrain.__name__}")
    for name, formulation in FORMULATIONS.items()
    for number, constrain in enumerate(formulation.CONSTRAINTS)
    if constrain.__name__ != SYMMETRY
]

each_formulation = pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())


def solves(formulation: ModuleType, buffers: Buffers, least: int | None) -> bool:
    """Whether the models of a set have the optimum."""
    try:
        return least_height(formulation, buffers) == least
    except WrongSolution:
        return False


@pytest.mark.parametrize(("formulation", "number"), NUMBERED)
def test_leaving_out_a_constraint_is_noticed(
    formulation: ModuleType, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = formulation.CONSTRAINTS[:number] + formulation.CONSTRAINTS[number + 1 :]
    monkeypatch.setattr(formulation, "CONSTRAINTS", rest)
    if formulation is offsets_milp:  # decode reads the positions alone
        monkeypatch.setattr(formulation, "decode", rounded)
    assert not all(solves(formulation, buffers, least) for buffers, least in BATTERY)


def rounded(built: Any, value: Any) -> tuple[int, ...]:
    return tuple(round(value(built.model.offset[i])) for i in range(built.data.count))


@each_formulation
def test_constraints_are_numbered_as_on_the_page(formulation: ModuleType) -> None:
    assert formulation.__doc__ is not None
    for number, constrain in enumerate(formulation.CONSTRAINTS, 1):
        assert f"\n{number}. " in formulation.__doc__
        assert (constrain.__doc__ or "").startswith(f"Constraint {number}")
    assert f"\n{number + 1}. " not in formulation.__doc__


@each_formulation
def test_constant_decode_is_noticed(formulation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(built: Any, value: Any) -> tuple[int, ...]:
        return tuple(0 for _ in range(built.data.count))

    monkeypatch.setattr(formulation, "decode", zeros)
    assert not all(solves(formulation, buffers, least) for buffers, least in BATTERY)


@each_formulation
def test_bound_is_below_the_optimum_and_often_meets_it(formulation: ModuleType) -> None:
    met = 0
    for buffers, _ in BATTERY:
        for data in offsets_data(buffers):
            found = solve_part(formulation, data)
            assert found is None or formulation.bound(data) <= found[0]
            met += found is not None and formulation.bound(data) == found[0]
    assert met >= 30


@each_formulation
def test_twins_stand_in_order(formulation: ModuleType) -> None:
    """Six alike buffers have one allocation, not 720; those with a pair or a place of their own are free."""
    row = [Buffer(id=f"b{k}", lower=0, upper=2, size=2, alignment=2) for k in range(6)]
    (data,) = offsets_data(Buffers(buffers=tuple(row)))
    found = solve_part(formulation, data)
    assert found is not None
    assert found[2] == tuple(range(6))
    paired = Buffers(buffers=(*row, Buffer(id="c", lower=1, upper=3, size=2)), inplace=(("b5", "c"),))
    assert least_height(formulation, paired) == 12

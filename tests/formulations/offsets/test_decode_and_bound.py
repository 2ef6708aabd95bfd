"""A constant in place of decode is noticed, and bounds and twins are as they are said to be."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from lowtide.formulations.offsets.data import offsets_data
from lowtide.models.buffers import Buffer, Buffers
from tests.problems.offsets import FORMULATIONS, WrongSolution, battery, least_height, solve_part

BATTERY = battery(60)

each_formulation = pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())


def solves(formulation: ModuleType, buffers: Buffers, least: int | None) -> bool:
    """Whether the models of a set have the optimum."""
    try:
        return least_height(formulation, buffers) == least
    except WrongSolution:
        return False


@each_formulation
def test_constant_decode_is_noticed(formulation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(built: Any, value: Any) -> tuple[int, ...]:
        return tuple(0 for _ in range(built.data.count))

    monkeypatch.setattr(formulation, "decode", zeros)
    assert not all(solves(formulation, buffers, least) for buffers, least in BATTERY)


@pytest.mark.slow
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

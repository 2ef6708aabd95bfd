"""Rows of linear expressions, and rows of a list of constraints, by hand."""

from __future__ import annotations

import pyomo.environ as pyo

from lowtide.formulations.linear_program import ProgramBuilder, as_pyomo
from lowtide.formulations.pyomo_terms import Rows, at_most


def test_rows_keep_what_is_in_range() -> None:
    rows = Rows(3)
    assert len(rows) == 3
    for row, name in ((0, "a"), (2, "b"), (2, "c"), (-1, "d"), (3, "e")):
        rows.variable(row, name, 5)
    rows.variable(1, "f", 0)
    for first, last, weight in ((-4, 0, 2), (1, 9, 7), (2, 1, 100), (3, 5, 100), (0, 2, 1)):
        rows.constant(first, last, weight)
    assert list(rows) == [(0, ["a"], [5], 3), (1, [], [], 8), (2, ["b", "c"], [5, 5], 8)]


def test_at_most_adds_up_variables_and_takes_numbers_to_the_other_side() -> None:
    model = pyo.ConcreteModel()
    model.x, model.y, model.rows = pyo.Var(), pyo.Var(), pyo.ConstraintList()
    at_most(model.rows, [(2, model.x), (3, 4), (1, model.y), (5, model.x), (0, model.y)], 20)
    at_most(model.rows, [(1, 3)], 3)  # holds, and has no variable
    at_most(model.rows, [(1, 4)], 3)
    model.x.value, model.y.value = 10, 1000
    found = [(row.lower, pyo.value(row.body), row.upper) for row in model.rows.values()]
    assert found == [(None, 1070, 8), (None, 0, -1)]


def test_a_program_in_other_units_has_the_same_points_and_costs() -> None:
    builder = ProgramBuilder(bytes_unit=1000, time_unit=10)
    small, large = builder.variable(8, 1000, cost=3), builder.variable(5000, 1000, cost=7)
    none = builder.variable(0, 9)
    builder.row([(small, 20), (large, -1), (none, 5)], -1000, 10**6)
    builder.row([(small, -1)], -4, 2)
    builder.row([(small, 0)], 0, 10)  # says nothing
    builder.row([], 0, 10)
    builder.row([], 4, 10)  # holds nowhere
    columns = {"x": {"a": small, "b": large, "again": large}, "y": {"same": small, "c": none}}
    stated = as_pyomo(builder.done(), columns, constant=11)
    assert [(x.name, x.bounds) for x in stated.variables] == [
        ("x[a]", (0, 1)),
        ("x[b]", (0, 5)),
        ("y[c]", (0, 0)),
    ]
    assert stated.units == [8, 1000, 9]
    assert len(stated.variables) == len([*stated.model.component_data_objects(pyo.Var)])
    first, second, nowhere = stated.model.rows.values()
    assert first.body.linear_coefs == (0.16, -1, 0.045)  # by the largest of them
    assert second.body.linear_coefs == (-4,)
    for a, b in ((8, 5000), (4, 1080), (4, 1081), (5, 0), (0, 0)):
        for x, value, unit in zip(stated.variables, (a, b, 0), stated.units, strict=True):
            x.set_value(value / unit)
        assert stated.values(pyo.value) == [a, b, 0]
        assert round(pyo.value(stated.model.objective), 6) == 3 * a + 7 * b + 11
        assert (first.lslack() >= -1e-9) == (20 * a - b >= -1000)
        assert (second.lslack() >= 0) == (a <= 4)
        assert nowhere.lslack() < 0

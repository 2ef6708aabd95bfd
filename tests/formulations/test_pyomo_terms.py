"""Rows of linear expressions, and rows of a list of constraints, by hand."""

from __future__ import annotations

import pyomo.environ as pyo

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

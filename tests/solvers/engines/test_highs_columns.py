"""A linear program that grows by columns: its optimum and dual values, then whole numbers."""

import math

import numpy as np
import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_columns import ColumnProgram


def context(time_limit: float | None = None) -> Context:
    return Context(problem=load_problem(lt.Peak, "gen:chain?n=3,seed=1"), time_limit=time_limit)


def knapsack(some: Context) -> ColumnProgram:
    """Return the program of values 10, 7, 4 and sizes 5, 4, 3 in a room of 9, each at most once."""
    program = ColumnProgram(np.full(4, -np.inf), np.array([9.0, 1, 1, 1]), some)
    sizes, values = (5, 4, 3), (10, 7, 4)
    program.add([(-v, [0, 1 + i], [s, 1]) for i, (s, v) in enumerate(zip(sizes, values, strict=True))])
    return program


def test_columns_lower_the_optimum_and_move_the_dual_values() -> None:
    program = ColumnProgram(np.array([4.0]), np.array([np.inf]), context())
    program.add([(3.0, [0], [1.0])])
    first = program.solve()
    program.add([(4.0, [0], [2.0])])
    second = program.solve()
    assert first is not None
    assert second is not None
    assert [first[0], *first[1]] == pytest.approx([12.0, 3.0])
    assert [second[0], *second[1]] == pytest.approx([8.0, 2.0])


def test_whole_numbers_fit() -> None:
    program = knapsack(context())
    program.add([(-5.0, [0], [2.5])])
    relaxed = program.solve()
    assert relaxed is not None
    assert relaxed[0] == pytest.approx(-18.0)
    found = program.choose(range(4), math.inf)
    assert found is not None
    assert found.round(6).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_rows_that_nothing_fulfils_have_no_optimum() -> None:
    program = ColumnProgram(np.array([1.0]), np.array([2.0]), context())
    program.add([(1.0, [0], [-1.0])])
    assert program.solve() is None
    assert program.choose(range(1), math.inf) is None


def test_without_time_there_is_none() -> None:
    some = context(time_limit=1e-9)
    assert knapsack(some).solve() is None
    assert knapsack(some).choose(range(3), math.inf) is None

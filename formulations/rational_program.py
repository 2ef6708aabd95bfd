r"""Small linear programs solved exactly: the dual simplex method in integers.

Minimize :math:`c x` subject to :math:`A x \le b`, :math:`x \ge 0`, with rational A and b and :math:`c \ge 0`.
Slacks make a basis that is dual feasible because c is not negative, so there is no first phase: as long as a
basic variable is negative it leaves, the smallest index first (Bland's rule, which excludes cycles); the
variable that enters keeps all reduced costs at least 0. If a row :math:`x_B + \sum_j a_j x_j = \beta < 0` has
no negative :math:`a_j`, no :math:`x \ge 0` satisfies it. The table is kept in integers over one common
denominator, the determinant of the basis (Edmonds 1967; Bareiss 1968), so every division is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

Row = tuple[Mapping[str, Fraction | int], Fraction | int]
"""Factors of variables, and what their sum is at most."""


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """An optimum with its proof.

    Attributes
    ----------
    objective
        The least cost.
    values
        Per variable that some row names.
    prices
        Per row, at least 0: ``cost[x] + sum(price * factor of x)`` is at least 0 for each variable x, and the
        objective is ``-sum(price * limit)``, so no x costs less (weak duality).
    """

    objective: Fraction
    values: dict[str, Fraction]
    prices: list[Fraction]


def minimize(cost: Mapping[str, Fraction | int], rows: Sequence[Row]) -> Optimum | None:
    """Return the least cost of any variables >= 0 within the rows, exactly; None if there are none.

    Parameters
    ----------
    cost
        Per variable, at least 0; others cost nothing.
    rows
        Each ``sum(factor * variable) <= limit``.

    Examples
    --------
    >>> minimize({"x": 2, "y": 3}, [({"x": -1, "y": -1}, -4), ({"x": 2}, 3)]).objective
    Fraction(21, 2)
    """
    names = sorted({*cost, *(name for factors, _ in rows for name in factors)})
    n, m = len(names), len(rows)
    # Row 0: reduced costs; row i + 1: row i. Columns: variables, then the right-hand side.
    lines = [[Fraction(cost.get(name, 0)) for name in names] + [Fraction(0)]]
    lines += [[Fraction(f.get(name, 0)) for name in names] + [Fraction(limit)] for f, limit in rows]
    scale = [lcm(*(value.denominator for value in line)) for line in lines]
    table = [[int(value * k) for value in line] for line, k in zip(lines, scale, strict=True)]
    outside, basis, unit = list(range(n)), list(range(n, n + m)), 1
    while negative := [i for i in range(1, m + 1) if table[i][n] < 0]:
        i = min(negative, key=lambda i: basis[i - 1])
        row = table[i]
        entering = [j for j in range(n) if row[j] < 0]
        if not entering:
            return None
        j = min(entering, key=lambda j: (Fraction(table[0][j], -row[j]), outside[j]))
        unit = _pivot(table, i, j, unit)
        outside[j], basis[i - 1] = basis[i - 1], outside[j]
    values = dict.fromkeys(names, Fraction(0))
    prices = [Fraction(0)] * m
    for i, x in enumerate(basis, start=1):
        if x < n:
            values[names[x]] = Fraction(table[i][n], unit)
    for j, x in enumerate(outside):
        if x >= n:  # the slack of a row that was multiplied by its scale
            prices[x - n] = Fraction(table[0][j] * scale[x - n + 1], unit * scale[0])
    return Optimum(objective=Fraction(-table[0][n], unit * scale[0]), values=values, prices=prices)


def _pivot(table: list[list[int]], i: int, j: int, unit: int) -> int:
    """Exchange the basic variable of row i with column j; return the new common denominator, above 0."""
    pivot = table[i]
    p = -pivot[j]  # above 0
    for k, line in enumerate(table):
        if k != i:
            factor = line[j]
            line[:] = [
                factor if c == j else (p * value + factor * pivot[c]) // unit for c, value in enumerate(line)
            ]
    pivot[:] = [-unit if c == j else -value for c, value in enumerate(pivot)]
    return p

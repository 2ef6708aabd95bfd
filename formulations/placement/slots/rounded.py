r"""The slot model in whole bytes and ns, near a solution of its linear program.

What channels carry in a piece takes whole ns there, and paths are of whole bytes. A fractional solution that
is rounded piece by piece may lose a ns in each. Near it there mostly is one of whole numbers that loses none
or two.

Data. A `LinearProgram` of `bytes_lp`, with N rounds: costs :math:`c`, rows :math:`A x \ge b`, bounds
:math:`0 \le x \le u`, all in integers; :math:`\hat x`, a fractional solution in the nearest integers; D, a
distance; L, a lower bound on the cost.

Sets. F: the x with a cost, which are the stalls, and those that are not at one of their bounds in
:math:`\hat x`; or all.

Variables. :math:`-D \le \delta_j \le D` for j in F, integers with :math:`0 \le \hat x_j + \delta_j \le u_j`.

Objective. Minimize :math:`c (\hat x + \delta)`, the stall in ns, subject to

1. :math:`A (\hat x + \delta) \ge b`; a row is divided by what its factors have in common, and left out where
   D is too small to break it;
2. :math:`c (\hat x + \delta) \ge L`.

A solution is one of the program, so it is a plan in N rounds (`bytes_lp`), and where each piece has one round
nothing is lost by rounding. It is optimal only among those that are near: no bound for others. L holds for
every solution, so 2 changes no optimum; with it a solver sees that it is done.

In CP-SAT (`rounded_cpsat`) and as a MILP (`rounded_milp`). Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from ...linear_program import LinearProgram
from ...model import Tick

Value = Callable[[Any], float]

Row = tuple[list[int], list[int], int]
"""Numbers of variables, their factors, and what their sum is at least."""


@dataclass(frozen=True)
class Near:
    """What may change, and the rows that hold the changes; numbers of variables are those of the program.

    Attributes
    ----------
    program
        The slot model.
    point
        The integers next to its fractional solution.
    change
        For each variable of F the least and the largest change.
    rows
        In changes (1).
    least
        What the cost of the changes is at least (2).
    """

    program: LinearProgram
    point: list[int]
    change: dict[int, tuple[int, int]]
    rows: list[Row]
    least: int

    @property
    def stall(self) -> int:
        """The cost without changes."""
        return sum(c * x for c, x in zip(self.program.cost, self.point, strict=True) if c)

    def cost(self) -> tuple[list[int], list[int]]:
        """Return the variables that have a cost, and it."""
        some = [j for j in self.change if self.program.cost[j]]
        return some, [self.program.cost[j] for j in some]

    def values(self, change: Callable[[int], int]) -> list[int] | None:
        """Return the variables of the program; None if the changes break a row or leave their bounds."""
        changed = {j: change(j) for j in self.change}
        if any(not low <= changed[j] <= high for j, (low, high) in self.change.items()):
            return None
        if any(
            sum(a * changed[j] for j, a in zip(some, factors, strict=True)) < low
            for some, factors, low in self.rows
        ):
            return None
        return [x + changed.get(j, 0) for j, x in enumerate(self.point)]


@dataclass(frozen=True)
class NearModel:
    """A model of it, and its variables by those of the program."""

    near: Near
    model: Any
    change: Mapping[int, Any]


def decode(built: NearModel, value: Value) -> list[int] | None:
    """Return the variables of the program; None if a row is broken."""
    return built.near.values(lambda j: round(value(built.change[j])))


def near(
    program: LinearProgram,
    values: Sequence[float],
    *,
    distance: int,
    every: bool = False,
    least: int = 0,
    row: Tick = lambda: None,
) -> Near:
    """Return the data of the model.

    Parameters
    ----------
    program, values
        Of `bytes_lp`, with rounds, and of its variables.
    distance
        D, bytes or ns.
    every
        Whether all variables may change.
    least
        L, ns.
    row
        Called for each row.

    Examples
    --------
    >>> from lowtide.formulations.linear_program import ProgramBuilder
    >>> builder = ProgramBuilder(1, 1)
    >>> stall = builder.variable(10, 1, cost=1)
    >>> builder.row([(stall, 12)], 50, 1)
    >>> found = near(builder.done(), [4.2], distance=3)
    >>> found.point, found.change, found.rows
    ([4], {0: (-3, 3)}, [([0], [1], 1)])
    """
    point = [min(u, max(0, round(x))) for x, u in zip(values, program.upper, strict=True)]
    change = {
        j: (max(-distance, -x), min(distance, u - x))
        for j, (x, u, c) in enumerate(zip(point, program.upper, program.cost, strict=True))
        if every or c or 0 < x < u
    }
    rows: list[Row] = []
    for r, low in enumerate(program.low):
        row()
        columns = program.column[program.first[r] : program.first[r + 1]]
        factors = program.value[program.first[r] : program.first[r + 1]]
        low -= sum(a * point[j] for a, j in zip(factors, columns, strict=True))
        terms = [(j, a) for a, j in zip(factors, columns, strict=True) if j in change]
        if -distance * sum(abs(a) for _, a in terms) < low:
            common = gcd(*(a for _, a in terms)) or 1
            rows.append(([j for j, _ in terms], [a // common for _, a in terms], -(-low // common)))
    found = Near(program, point, change, rows, 0)
    return Near(program, point, change, rows, least - found.stall)

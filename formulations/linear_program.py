r"""Linear programs in integers, and the bounds that any multipliers of their rows prove.

Minimize :math:`c x` subject to :math:`A x \ge b`, :math:`0 \le x \le u`, everything in integers (bytes and
ns). For any multipliers :math:`y \ge 0` weak duality gives

.. math:: \min c x \ge b y + \sum_j \min(0, (c - A^T y)_j) u_j,

because :math:`c x = y A x + (c - A^T y) x \ge y b + \sum_j \min(0, (c - A^T y)_j) u_j` for every
feasible x. Evaluated in integers it needs no trust in whatever found the multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .model import Tick
from .pyomo_terms import linear


@dataclass(frozen=True, kw_only=True)
class LinearProgram:
    """Minimize cost x subject to rows x >= low, 0 <= x <= upper, all in integers: bytes and ns.

    Attributes
    ----------
    cost, upper, unit
        Per variable: its cost, its upper bound, and how many of it make one in a scaled program.
    low, scale
        Per row: its right-hand side, and what to divide the row by in a scaled program.
    first, column, value
        The rows, compressed.
    """

    cost: list[int]
    upper: list[int]
    unit: list[int]
    low: list[int]
    scale: list[int]
    first: list[int]
    column: list[int]
    value: list[int]


def dual_bound(program: LinearProgram, multipliers: Sequence[int], denominator: int) -> int:
    """Return a lower bound on the optimum, rounded up: weak duality, in integers.

    Parameters
    ----------
    multipliers
        Per row, at least 0; divided by `denominator`.
    denominator
        At least 1.
    """
    reduced = [denominator * c for c in program.cost]
    total = 0
    for r, y in enumerate(multipliers):
        if y:
            total += y * program.low[r]
            for k in range(program.first[r], program.first[r + 1]):
                reduced[program.column[k]] -= y * program.value[k]
    total += sum(c * u for c, u in zip(reduced, program.upper, strict=True) if c < 0)
    return -(-total // denominator)


class ProgramBuilder:
    """Collects variables and rows; the units make numbers of moderate size in a scaled program.

    `tick` is called at each of them.
    """

    def __init__(self, bytes_unit: int, time_unit: int, tick: Tick = lambda: None) -> None:
        self.tick = tick
        self.bytes_unit, self.time_unit = bytes_unit, time_unit
        self.cost: list[int] = []
        self.upper: list[int] = []
        self.unit: list[int] = []
        self.low: list[int] = []
        self.scale: list[int] = []
        self.first = [0]
        self.column: list[int] = []
        self.value: list[int] = []

    def variable(self, upper: int, unit: int, cost: int = 0) -> int:
        """Add a variable and return its number."""
        self.tick()
        self.cost.append(cost)
        self.upper.append(upper)
        self.unit.append(unit)
        return len(self.cost) - 1

    def row(self, terms: Sequence[tuple[int, int]], low: int, scale: int) -> None:
        """Add a row: its terms are at least `low`."""
        self.tick()
        for column, value in terms:
            self.column.append(column)
            self.value.append(value)
        self.first.append(len(self.column))
        self.low.append(low)
        self.scale.append(scale)

    def done(self) -> LinearProgram:
        """Return what was collected."""
        return LinearProgram(
            cost=self.cost,
            upper=self.upper,
            unit=self.unit,
            low=self.low,
            scale=self.scale,
            first=self.first,
            column=self.column,
            value=self.value,
        )


@dataclass(frozen=True)
class PyomoProgram:
    """A linear program as a Pyomo model in other units.

    Attributes
    ----------
    model
        The Pyomo model; its objective is in the unit of the costs.
    variables, units
        Per column: its variable, and how many bytes or ns one of it is.
    """

    model: Any
    variables: list[Any]
    units: list[int]

    def values(self, value: Callable[[Any], float]) -> list[float]:
        """Return the values of the columns, in bytes and ns."""
        return [value(x) * unit for x, unit in zip(self.variables, self.units, strict=True)]


def as_pyomo(
    program: LinearProgram, columns: Mapping[str, Mapping[Any, int]], constant: int = 0
) -> PyomoProgram:
    """Return a linear program as a Pyomo model.

    A variable is in the unit of its column, or in its upper bound if that is less: that of a small tensor
    would be lost in the tolerances of solvers. Rows are scaled alike.

    Parameters
    ----------
    columns
        The columns of each kind of variable by its indices; several may share one.
    constant
        What the objective has beside the costs.
    """
    import pyomo.environ as pyo

    pairs = zip(program.unit, program.upper, strict=True)
    units = [min(unit, upper) if upper > 0 else unit for unit, upper in pairs]
    model, variables = pyo.ConcreteModel(), dict[int, Any]()
    for name, table in columns.items():
        first = {column: key for key, column in reversed([*table.items()]) if column not in variables}
        block = pyo.Var([*reversed(first.values())], domain=pyo.NonNegativeReals)
        model.add_component(name, block)
        for column, key in first.items():
            variables[column] = block[key]
            block[key].setub(program.upper[column] / units[column])
    model.rows = pyo.ConstraintList()
    for r, (low, scale) in enumerate(zip(program.low, program.scale, strict=True)):
        span = slice(program.first[r], program.first[r + 1])
        numbers = program.column[span] or [0]  # a row without terms does not hold, or says nothing
        weights = [x * units[c] for c, x in zip(numbers, program.value[span] or [0], strict=True)]
        if any(weights) or low > 0:
            scale = min(scale, max(map(abs, weights)) or scale)
            body = linear([variables[c] for c in numbers], [x / scale for x in weights])
            model.rows.add(body >= low / scale)
    costs = {c: cost * units[c] for c, cost in enumerate(program.cost) if cost}
    model.objective = pyo.Objective(expr=linear([variables[c] for c in costs], [*costs.values()], constant))
    return PyomoProgram(model, [variables[c] for c in range(len(program.cost))], units)

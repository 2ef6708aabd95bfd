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
from functools import cached_property
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


class Named:
    """A linear program whose columns have names, and the same as a Pyomo model, scaled.

    A variable is in its `units`: those of the program, or its upper bound if that is less, as of a small
    tensor, which would be lost in the tolerances of solvers. So rows are.

    Attributes
    ----------
    program
        In bytes and ns.
    """

    program: LinearProgram

    @property
    def columns(self) -> Mapping[str, Mapping[Any, int]]:
        """The columns of each kind of variable by its indices; several may share one."""
        raise NotImplementedError

    @property
    def model(self) -> Any:
        """The Pyomo model."""
        return self._stated[0]

    @cached_property
    def units(self) -> list[int]:
        """By column, how many bytes or ns one of its variable is."""
        pairs = zip(self.program.unit, self.program.upper, strict=True)
        return [min(unit, upper) if upper > 0 else unit for unit, upper in pairs]

    def values(self, value: Callable[[Any], float]) -> list[float]:
        """Return the values of the columns, in bytes and ns."""
        return [value(x) * unit for x, unit in zip(self._stated[1], self.units, strict=True)]

    @cached_property
    def _stated(self) -> tuple[Any, list[Any]]:
        import pyomo.environ as pyo

        program, units, model, found = self.program, self.units, pyo.ConcreteModel(), dict[int, Any]()
        for name, table in self.columns.items():
            first = {column: key for key, column in reversed([*table.items()]) if column not in found}
            variables = pyo.Var([*reversed(first.values())], domain=pyo.NonNegativeReals)
            model.add_component(name, variables)
            for column, key in first.items():
                found[column] = variables[key]
                variables[key].setub(program.upper[column] / units[column])
        model.rows = pyo.ConstraintList()
        for r, (low, scale) in enumerate(zip(program.low, program.scale, strict=True)):
            span = slice(program.first[r], program.first[r + 1])
            columns = program.column[span] or [0]  # a row without terms does not hold, or says nothing
            weights = [x * units[c] for c, x in zip(columns, program.value[span] or [0], strict=True)]
            if any(weights) or low > 0:
                scale = min(scale, max(map(abs, weights)) or scale)
                model.rows.add(
                    linear([found[c] for c in columns], [x / scale for x in weights]) >= low / scale
                )
        priced = [(found[c], cost * units[c]) for c, cost in enumerate(program.cost) if cost]
        model.objective = pyo.Objective(expr=linear([x for x, _ in priced], [cost for _, cost in priced]))
        return model, [found[column] for column in range(len(program.cost))]

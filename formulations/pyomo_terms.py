"""Linear expressions: collected row by row, built fast in Pyomo; and silence while a model is built."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class Rows:
    """Linear rows 0..n-1: variables with weights, and a constant each.

    Collecting takes the time of the free variables, not of rows times ops.

    Examples
    --------
    >>> rows = Rows(3)
    >>> rows.variable(1, "y", 5)
    >>> rows.constant(1, 9, 2)
    >>> list(rows)
    [(0, [], [], 0), (1, ['y'], [5], 2), (2, [], [], 2)]
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._variables: list[list[Any]] = [[] for _ in range(n)]
        self._weights: list[list[int]] = [[] for _ in range(n)]
        self._jumps = [0] * (n + 1)

    def __len__(self) -> int:
        return self._n

    def variable(self, row: int, variable: Any, weight: int) -> None:
        """Add a weighted variable to a row; nothing if the weight is 0 or there is no such row."""
        if weight and 0 <= row < self._n:
            self._variables[row].append(variable)
            self._weights[row].append(weight)

    def constant(self, first: int, last: int, weight: int) -> None:
        """Add a constant to the rows from `first` to `last`, as far as they exist."""
        first, last = max(first, 0), min(last, self._n - 1)
        if first <= last:
            self._jumps[first] += weight
            self._jumps[last + 1] -= weight

    def __iter__(self) -> Iterator[tuple[int, list[Any], list[int], int]]:
        constant = 0
        for row in range(self._n):
            constant += self._jumps[row]
            yield row, self._variables[row], self._weights[row], constant


def linear(variables: list[Any], weights: Sequence[float], constant: float = 0) -> Any:
    """Return the weighted sum of variables plus a constant."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    return LinearExpression(constant=constant, linear_coefs=weights, linear_vars=variables)


def add_constraint(model: Any, name: str, indices: Iterable[Any], rule: Callable[..., Any]) -> None:
    """Add a Pyomo constraint: `rule` returns its row, given the model and an index."""
    from pyomo.environ import Constraint

    model.add_component(name, Constraint(list(indices), rule=rule))


def at_most(rows: Any, terms: Sequence[tuple[float, Any]], most: float) -> None:
    """Add to a `ConstraintList` that the weighted sum of variables and numbers is at most `most`.

    Numbers are taken to the other side; a row without variables that does not hold makes the model
    infeasible.
    """
    weights: dict[int, float] = {}
    variables: dict[int, Any] = {}
    for weight, item in terms:
        if isinstance(item, int | float):
            most -= weight * item
        elif weight:
            variables[id(item)] = item
            weights[id(item)] = weights.get(id(item), 0) + weight
    if variables or most < -1e-9:
        rows.add((None, linear(list(variables.values()), list(weights.values())), most))


@contextlib.contextmanager
def silent_pyomo() -> Iterator[None]:
    """Keep Pyomo from printing about exceptions, which it raises as well."""
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

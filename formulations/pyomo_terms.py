"""Pyomo: linear expressions, built fast, and silence while a model is built."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any


def linear(variables: list[Any], weights: Sequence[float], constant: float = 0) -> Any:
    """Return the weighted sum of variables plus a constant."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    return LinearExpression(constant=constant, linear_coefs=weights, linear_vars=variables)


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

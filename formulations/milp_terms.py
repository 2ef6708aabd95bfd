"""Linear expressions of Pyomo, built fast."""

from __future__ import annotations

from typing import Any


def linear(variables: list[Any], weights: list[int], constant: int = 0) -> Any:
    """Return the weighted sum of variables plus a constant."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    return LinearExpression(constant=constant, linear_coefs=weights, linear_vars=variables)

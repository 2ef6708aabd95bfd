"""Linear expressions of Pyomo, built fast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def linear_sum(terms: Iterable[tuple[Any, int]]) -> Any:
    """Return the weighted sum of variables, fixed ones folded into the constant."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    variables, weights, constant = [], [], 0
    for variable, weight in terms:
        if isinstance(variable, int):
            constant += variable * weight
        elif weight:
            variables.append(variable)
            weights.append(weight)
    return LinearExpression(constant=constant, linear_coefs=weights, linear_vars=variables)

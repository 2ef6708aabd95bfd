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

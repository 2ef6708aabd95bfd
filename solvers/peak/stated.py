"""What models of `peak` are stated of, where they are written for other solvers."""

from __future__ import annotations

from typing import Any

from ...formulations.peak.data import peak_data
from ...models.problems.peak import Peak


def stated(problem: Peak) -> dict[str, Any]:
    """Return the data of every model."""
    return {"data": peak_data(problem)}

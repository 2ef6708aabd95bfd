"""What models of `makespan` are stated of, where they are written for other solvers."""

from __future__ import annotations

from typing import Any

from ...formulations.makespan.data import makespan_data
from ...models.problems.makespan import Makespan
from ..method import STATING_SECONDS
from ..solve import solve


def stated(problem: Makespan) -> dict[str, Any]:
    """Return the data, and the ticks within which a model looks for schedules."""
    data = makespan_data(problem)
    known = solve(problem, "list", time_limit=STATING_SECONDS, threads=1).objective
    return {"data": data, "horizon": data.horizon if known is None else known // data.tick}


def unhurried(problem: Makespan) -> dict[str, Any]:
    """Return the same for a model to which rows may be added: its horizon is none of a known schedule."""
    data = makespan_data(problem)
    return {"data": data, "horizon": data.horizon}

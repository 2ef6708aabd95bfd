"""The model of `distributed` through CP-SAT, from what lists find."""

from __future__ import annotations

from typing import Any

from ...formulations.distributed import intervals_cpsat
from ...formulations.distributed.data import DistributedData, distributed_data
from ...models.problems.distributed import Distributed
from ..context import Context, Outcome
from ..engines.model import solve_model


def stated(problem: Distributed) -> dict[str, Any]:
    """Return what the model is built of."""
    data = distributed_data(problem)
    return {"data": data, "horizon": data.horizon}


def checked_horizon(data: DistributedData, context: Context) -> int:
    """Return the incumbent or the safe horizon, in ticks; raise `UsageError` if that is too large."""
    horizon = data.horizon if context.incumbent is None else context.incumbent // data.tick
    intervals_cpsat.check(data, horizon)
    return horizon


def solve_intervals(data: DistributedData, context: Context) -> Outcome:
    """Run CP-SAT from the incumbent and bound of the context; without an incumbent on the safe horizon."""
    horizon = checked_horizon(data, context)
    return solve_model(
        context,
        intervals_cpsat,
        lambda: intervals_cpsat.build(
            data,
            horizon=horizon,
            lower=-(-(context.bound or 0) // data.tick),
            hint=context.answer,
            expired=lambda: context.expired,
        ),
        what="the CP-SAT model of intervals",
        size=intervals_cpsat.size(data, horizon),
        decode=intervals_cpsat.decode,
        to_objective=lambda ticks: ticks * data.tick,
    )

"""What methods that make streams, or stages, have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from ...formulations.model import BuildTimeout
from ...models.errors import UsageError
from ...models.lowering.devices import Devices
from ...models.problems.streams import Streams
from ..context import Context, Outcome


def refuse_stages(problem: Streams) -> None:
    """Raise a `UsageError` if the contention prices stages, or there are several devices."""
    if problem.devices > 1:
        raise UsageError(
            f"devices: found {problem.devices}, expected 1 (heft, hios-lp, hios-mr and cpsat are for several)"
        )
    if problem.device.staged:
        raise UsageError(
            f"contention: found {problem.contention!r}, which prices stages, expected none or proportional"
        )


def refuse_orders(problem: Streams) -> None:
    """Raise a `UsageError` unless the contention prices stages."""
    if not problem.device.staged:
        raise UsageError(
            f"contention: found {problem.contention!r}, expected fluid or half-serial, which price stages"
        )


def devices_of(problem: Streams) -> Devices:
    """Return the devices; raise a `UsageError` if there is one."""
    if problem.cluster is None:
        raise UsageError("devices: found 1, expected several (auto and lios are for one)")
    return problem.cluster


def in_time(solve: Callable[[Streams, Context], Outcome]) -> Callable[[Streams, Context], Outcome]:
    """Return a method that ends when what it builds sees that the time is up."""

    @wraps(solve)
    def timed(problem: Streams, context: Context) -> Outcome:
        try:
            return solve(problem, context)
        except BuildTimeout:
            return Outcome(reason="time", detail="the time was up before the streams were made")

    return timed

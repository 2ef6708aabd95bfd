"""`serial` for `partition`: stages with the least sum of loads, for the latency.

One sample takes that sum if each stage waits for the one before, and less where some run beside each other.
The programs of `chain` and `ideals` find it, with one stage of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...models.problems.partition import Partition
from ...models.split import HOST
from ..context import Context, Outcome
from .ideals import solve_ideals
from .latency import raise_latency


def solve_serial(
    problem: Partition, context: Context, program: Callable[[Partition, Context], Outcome] = solve_ideals
) -> Outcome:
    """Raise the bound, and offer stages with the least sum of loads, as a program finds them."""
    if problem.objective != "latency":
        return Outcome(detail="serial is for the latency")
    raise_latency(problem, context)
    devices = {kind: 1 if kind == HOST else count for kind, count in problem.kinds}
    other = replace(problem, objective="time", micro=1, processors=tuple(devices.items()))
    inner = context.inner(other, context.remaining(), "sum of loads: ")
    outcome = program(other, inner)
    if inner.answer is None:
        return Outcome(reason=outcome.reason, detail=outcome.detail or "no such stages were found")
    context.offer(inner.answer)
    return Outcome(reason=outcome.reason, detail=outcome.detail, facts=outcome.facts)

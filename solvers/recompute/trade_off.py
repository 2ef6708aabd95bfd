"""The memory/time trade-off of `recompute`: one solve for each of a few memories, what is known shared out.

Below the smallest memory of the sweep there is no plan (`Recompute.impossible`); the largest is the peak of
every op once in the reference order, which no plan is faster than (or that of the problem, if it has a
smaller memory). The others lie between them, each the same part larger than the one before: curves are
steepest at little memory. Afterwards every plan and every bound counts wherever it holds
(`lowtide.models.problems.trade_off`). The time is shared out evenly over the solves that are left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...models.problems.recompute import Recompute
from ...models.problems.trade_off import KnownBound, KnownSchedule, TradeOff, closed
from ...models.result import Result, Status
from ...models.units import format_bytes
from ...models.verifier.verdict import Verification
from ..solve import solve


def sweep(
    problem: Recompute,
    points: int,
    *,
    method: str,
    time_limit: float | None,
    progress: Callable[[str], None] | None,
    **setting: Any,
) -> TradeOff:
    """Return the trade-off between the fast memory and the time of a graph, as `lowtide.sweep_memory` does.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:backprop-chain?l=8&accounting=replace")
    >>> curve = lt.sweep_memory(lt.Recompute(graph), 8, method="hetero-chain")
    >>> curve.least_memory, [(p.memory, p.makespan - 17) for p in curve.points]
    (2, [(3, 21), (4, 7), (5, 4), (6, 3), (7, 2), (9, 0)])
    """
    began = time.perf_counter()
    ends = math.inf if time_limit is None else began + time_limit
    runs: list[Result] = []
    schedules: list[KnownSchedule] = []
    bounds = [KnownBound(value=problem.least_time, memory=None, proof="exact")]
    once = problem.judge(problem.read(range(len(problem.graph.ops))))
    assert isinstance(once.verification, Verification)
    low, peak = least_memory(problem), once.verification.peaks[problem.fast]
    high = peak if problem.memory is None else min(peak, problem.memory)
    if once.objective is not None:
        schedules.append(KnownSchedule(peak=peak, makespan=once.objective, plan=once.plan))
    last = max(points - 1, 1)
    first = max(low, 1)
    memories = sorted({high, *(round(first * (high / first) ** (k / last)) for k in range(points))})
    reason = None
    for number, memory in enumerate(memories):
        remaining = ends - time.perf_counter()
        if remaining <= 0:
            reason = "time"
            break
        title = f"memory {number + 1} of {len(memories)} ({format_bytes(memory)})"
        result = solve(
            replace(problem, memory=memory),
            method,
            time_limit=None if math.isinf(remaining) else remaining / (len(memories) - number),
            progress=None if progress is None else _titled(progress, title),
            **setting,
        )
        runs.append(result)
        if result.status is Status.FAILED or result.reason == "interrupted":
            reason = "crash" if result.status is Status.FAILED else "interrupted"
            break
        if result.status is Status.INFEASIBLE:
            low = max(low, memory + 1)
        if result.bound is not None:
            bounds.append(KnownBound(value=result.bound, memory=memory, proof=result.proof))
        if result.objective is not None:
            assert isinstance(result.verification, Verification)
            peak = result.verification.peaks[problem.fast]
            schedules.append(KnownSchedule(peak=peak, makespan=result.objective, plan=result.plan))
    return TradeOff(
        instance=problem.graph.name,
        machine=problem.machine.name,
        least_memory=low,
        points=tuple(closed(memories, schedules, bounds)),
        bound=problem.least_time,
        method=method,
        reason=reason,
        seconds=time.perf_counter() - began,
        durations=problem.graph.durations,
        runs=tuple(runs),
        problem=problem.name,
    )


def least_memory(problem: Recompute) -> int:
    """Return the least bytes of fast memory in which a look at the problem shows nothing impossible.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.solvers.recompute.trade_off import least_memory
    >>> least_memory(lt.Recompute(lt.load("gen:backprop-chain?l=5")))
    3
    """
    low, high = 0, 1
    while replace(problem, memory=high).impossible() is not None:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if replace(problem, memory=middle).impossible() is None:
            high = middle
        else:
            low = middle + 1
    return low


def _titled(progress: Callable[[str], None], title: str) -> Callable[[str], None]:
    return lambda line: progress(f"{title}: {line}")

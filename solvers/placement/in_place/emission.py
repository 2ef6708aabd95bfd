"""The plan of the paths of all live ranges."""

from __future__ import annotations

import numpy as np

from ....formulations.placement.in_place.data import NEAR, InPlaceData
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement
from .paths_kernel import LiveRanges, PathPrices
from .plan_kernel import PlanState, Schedule, simulate


def emit(
    problem: Placement,
    data: InPlaceData,
    ranges: LiveRanges,
    state: PlanState,
    prices: PathPrices,
    times: Schedule,
) -> Plan:
    """Return the plan of all paths, with the copies in `times` and the exact lengths of the ops."""
    modes = [_mode(data, state, k) for k in range(data.n)]
    state.length[:] = [ns for ns, _ in modes]
    end = simulate(state, prices, times)
    builder = PlanBuilder(problem.graph, problem.machine)
    tiers = [tier.name for tier in problem.machine.tiers]
    for i, x in enumerate(data.ranges):
        if x.initial:
            held = int(state.before[ranges.base[i]]) + 1
            for tier in range(2):
                if held >> tier & 1:
                    builder.start(x.tensor, tiers[tier])
    processor = problem.machine.processors[0].name
    ends = (times.begin + state.length).tolist()
    for k, start in enumerate(times.begin.tolist()):
        builder.run(k, modes[k][1], start, ends[k], processor)
    copies, releases = times.counts.tolist()
    rows = np.stack([times.moved, times.outward, times.start, times.end], axis=1)[:copies]
    for i, outward, start, stop in rows.tolist():
        builder.copy(data.ranges[i].tensor, tiers[1 - outward], tiers[outward], start, stop)
    for i, tier, e, copy in times.release[:releases].tolist():
        time = max(ends[e - 1] if e else 0, int(times.end[copy]) if copy >= 0 else 0)
        builder.free(data.ranges[i].tensor, tiers[tier], time)
    return builder.plan(period=end if problem.periodic else None)


def _mode(data: InPlaceData, state: PlanState, k: int) -> tuple[int, int]:
    """Return the ns and the number of the fastest mode of an op with the accesses to its operands."""
    operands = data.operands_of(k)
    accesses = state.access[data.first[k] : data.first[k + 1]].tolist()
    far = sum(x.nbytes for x, access in zip(operands, accesses, strict=True) if access != NEAR)
    ns, number = min(
        (ns, number)
        for m, (number, ns, _) in enumerate(data.modes[k])
        if all(access in x.accesses[m] for x, access in zip(operands, accesses, strict=True))
    )
    return ns - data.slowdown(-far), number

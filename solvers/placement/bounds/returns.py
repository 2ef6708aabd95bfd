"""Proved bounds on placements in which ops may run again: linear programs over more and more moments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from ....formulations.linear_program import dual_bound
from ....formulations.model import BuildTimeout, ticker
from ....formulations.placement.bounds.returns_lp import Ways, build
from ....formulations.recompute.data import RecomputeData, recompute_data
from ....formulations.recompute.moments_milp import longest_path
from ....models.graph import Graph
from ....models.problems.placement import Placement
from ....models.problems.recompute import Recompute
from ...context import Context

MOMENTS = (3, 12, 48)
"""How many moments the programs have, if there are as many ops."""
MOST_COLUMNS = 150_000
"""Columns up to which a program is built: larger ones take HiGHS longer than they are worth."""
DENOMINATOR = 2**60
"""Multipliers are rounded to integers over it, so that the bound by them is exact."""
NO_LIMIT = 100
"""Times the sum of the durations: the longest plan that is looked at while none is known."""


def raise_by_returns(problem: Placement, context: Context, graph: Graph) -> None:
    """Raise the bound on plans of one processor in its first tier, whose ops have one mode each.

    Parameters
    ----------
    problem, context
        Of the solve.
    graph
        The problem's; where first runs keep their order, with that (`rerunning.search.in_reference_order`).
    """
    from ...engines.highs_lp import dual_values

    device = problem.machine.tiers[0]
    if device.capacity is None:
        return
    data = recompute_data(Recompute(graph), bundled=False)
    ways, path = ways_of(problem, data), longest_path(data)
    solved = 0
    for count in MOMENTS:
        moments = evenly(data, path, count)
        if len(moments) <= solved:
            continue
        if context.closed or context.expired or 4 * count * len(data.values) > MOST_COLUMNS:
            break
        total = data.ns(sum(data.duration))
        most = NO_LIMIT * total if context.incumbent is None else context.incumbent
        try:
            program = build(data, moments, device.capacity, ways, most, ticker(lambda: context.expired))
        except BuildTimeout:
            break
        context.progress(f"bound by returns at {len(moments)} moments, {len(program.low)} rows")
        values = dual_values(program, context, context.remaining())
        if values is None:
            break
        found = dual_bound(program, [round(y * DENOMINATOR) for y in values], DENOMINATOR)
        context.raise_bound(min(most, found), kind="returns")
        solved = len(moments)


def evenly(data: RecomputeData, path: Sequence[int], count: int) -> list[int]:
    """Return so many ops of a path, at about equal times from one to the next."""
    clock = list(accumulate(data.duration[p] for p in path))
    places = {bisect_left(clock, clock[-1] * k / (count + 1)) for k in range(1, count + 1)}
    return [path[place] for place in sorted(places)]


def ways_of(problem: Placement, data: RecomputeData) -> Ways:
    """Return what the channels of the first tier carry, and where initial values may start."""
    machine, tensors = problem.machine, problem.graph.tensors
    device = machine.tiers[0].name
    rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels if device in (c.src, c.dst)}
    into = [ends for ends in rates if ends[1] == device]
    away = [ends for ends in rates if ends[0] == device]

    def carried(some: Sequence[tuple[str, str]]) -> int:
        caps = [g.bytes_per_s for g in machine.groups if {*some} <= {*g.channels}]
        return min([sum(rates[ends] for ends in some), *caps])

    starts = [
        problem.may_start(tensors[data.tensors[x.tensor][0]].kind) if x.writer is None else ()
        for x in data.values
    ]
    return Ways(
        into=carried(into),
        out=carried(away),
        both=carried([*into, *away]),
        inside=tuple(device in some for some in starts),
        outside=tuple(any(tier != device for tier in some) for some in starts),
    )

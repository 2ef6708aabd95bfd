"""The plan of a log: what planner and simulator have in common.

What is where at time 0 is said by a `_start` of each. Of a chunk under way the planner counts the bytes that
have landed, the simulator none. An input of a period may start in several tiers in the planner, but in one
in the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....models.lowering.builder import PlanBuilder
from ....models.plan import ByteRange, Plan
from .channels import LOG_COPY, LOG_FREE, LOG_RUN, pairs

Action = tuple[int, int, int, ByteRange | None, int, int]
"""Kind of row; op or tensor of the graph; mode, channel or tier; part of the tensor; start and end in ns."""


def plan_of_log(
    out: PlanBuilder, actions: Iterable[Action], tiers: Sequence[str], period: int | None
) -> Plan:
    """Return the plan with these runs, copies and releases; a copy that starts before time 0 is under way."""
    ends, processor = pairs(tiers), out.machine.processors[0].name
    for kind, what, where, part, start, end in actions:
        if kind == LOG_RUN:
            out.run(what, where, start, end, processor)
        elif kind == LOG_COPY:
            src, dst = ends[where]
            if period is not None and start < 0:
                out.start(what, dst, part, valid=end <= 0)
                start, end = start + period, end + period
            out.copy(what, src, dst, start, end, part)
        elif kind == LOG_FREE:
            out.free(what, tiers[where], start, part)
    return out.plan(period=period)

"""Lowering: from start times of the ops to the plan that executes them side by side on one memory."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ..graph import Accounting
from ..machine import Access, Machine, Processor, Tier
from .builder import PlanBuilder

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan

_TIER = "memory"


def lower_starts(
    graph: Graph, starts: Sequence[int], modes: Sequence[int], capacity: int | None = None
) -> Plan:
    """Return the plan in which each op starts at its time, on as many processors as that takes.

    A tensor that is not final is freed at the end of its last access; under ``replace`` at the start of
    the last one, but not before the end of a run that writes it. Initial tensors that are accessed or final
    are resident from time 0.

    Parameters
    ----------
    graph
        What is executed; the starts are not checked (the verifier does).
    starts
        Per op: ns.
    capacity
        Of the memory, in bytes; None if unlimited.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    width = 0
    released: dict[int, int] = {}
    out = PlanBuilder(graph, Machine.single())
    for i in sorted(range(len(graph.ops)), key=lambda i: (starts[i], i)):
        while busy and busy[0][0] <= starts[i]:
            heappush(free, heappop(busy)[1])
        if not free:
            heappush(free, width)
            width += 1
        number = heappop(free)
        end = starts[i] + graph.ops[i].all_modes[modes[i]].duration_ns
        heappush(busy, (end, number))
        out.run(i, modes[i], starts[i], end, f"p{number}")
        op = graph.ops[i]
        for t in (*op.reads, *op.writes):
            held = graph.accounting is Accounting.COEXIST or t in op.writes
            released[t] = max(released.get(t, 0), end if held else starts[i])
    access = (Access(tier=_TIER),)
    out.machine = Machine(
        name="parallel",
        tiers=(Tier(name=_TIER, capacity=capacity),),
        processors=tuple(Processor(name=f"p{k}", tiers=access) for k in range(max(width, 1))),
    )
    out.start_used(_TIER)
    for t in sorted(released):
        if not graph.tensors[t].final:
            out.free(t, _TIER, released[t])
    return out.plan()

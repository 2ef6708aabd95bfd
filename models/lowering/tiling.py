"""Lowering: from groups of ops in tiles to the plan of their runs, and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import InstanceError
from ..machine import Access, Machine, Processor, Tier
from ..plan import Run
from ..tile_rules import TileGroup, Tiling
from .order import lower_runs

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan

_NUMBERS = r"(\d{1,19}(?:\+\d{1,19})*)"
_NAME = re.compile(
    rf"group \d{{1,19}} (\d{{1,19}})x(\d{{1,19}})x(\d{{1,19}})(?: keep {_NUMBERS})?(?: order {_NUMBERS})?",
    re.ASCII,
)


def lower_tiling(graph: Graph, tiling: Tiling) -> Plan:
    """Return the plan that runs the ops of each group once, back to back, transfers taking no time.

    The processors are the groups; their names say the granularity, what is kept, and the order of tiles.
    """
    names, runs, now = [], [], 0
    for s, group in enumerate(tiling.groups):
        name = f"group {s} " + "x".join(map(str, group.granularity))
        name += f" keep {'+'.join(map(str, group.keep))}" if group.keep else ""
        name += f" order {'+'.join(map(str, group.order))}" if group.order else ""
        names.append(name)
        for i in group.ops:
            now += graph.ops[i].duration_ns
            runs.append(Run(i, 0, now - graph.ops[i].duration_ns, now, name))
    machine = Machine(
        name="tiles",
        tiers=(Tier(name="memory"),),
        processors=tuple(Processor(name=name, tiers=(Access(tier="memory"),)) for name in names),
    )
    return lower_runs(graph, runs, machine)


def tiling_of_plan(graph: Graph, plan: Plan) -> Tiling:
    """Return the groups that a plan stands for, in the order of the machine's processors.

    Raises
    ------
    InstanceError
        If it is a plan for another graph, or its processors are no groups.
    """
    if plan.graph_sha256 not in (None, graph.sha256):
        raise InstanceError(f"found a plan for another graph than {graph.name!r}")
    groups = []
    for processor in plan.machine.processors:
        name = _NAME.fullmatch(processor.name)
        if name is None:
            raise InstanceError(f"found processor {processor.name!r:.60}, expected a group of tiles")
        w, h, k = (max(1, int(x)) for x in name.group(1, 2, 3))
        keep, order = ([int(x) for x in (text or "").split("+") if x] for text in name.group(4, 5))
        runs = sorted((r.start, r.end, r.op) for r in plan.runs if r.processor == processor.name)
        ops = tuple(i for _, _, i in runs)
        groups.append(TileGroup(ops=ops, granularity=(w, h, k), keep=tuple(keep), order=tuple(order) or None))
    return Tiling(groups=tuple(groups))

"""Lowering: from a split of a graph's ops into stages to the plan of one micro-batch, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..derived.precedence import precedence
from ..errors import InstanceError
from ..machine import Access, Machine, Processor, Tier
from ..plan import Run
from ..split import Split
from .order import lower_runs

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan

_NAME = re.compile(r"stage \d+(?: x(\d{1,9}))?(?: again (\d{1,9}(?:\+\d{1,9})*))?", re.ASCII)


def lower_split(graph: Graph, split: Split, modes: Sequence[int]) -> Plan:
    """Return the plan in which each stage runs its ops in the reference order, transfers taking no time.

    The processors are the stages; their names say how many devices each has, and which ops run again.

    Parameters
    ----------
    modes
        Per op: the number of its mode.
    """
    names = [f"stage {s}" + (f" x{r}" if r > 1 else "") for s, r in enumerate(split.replicas)]
    for s in sorted({split.stage[i] for i in split.again}):
        names[s] += " again " + "+".join(str(i) for i in split.again if split.stage[i] == s)
    access = (Access(tier="memory"),)
    machine = Machine(
        name="stages",
        tiers=(Tier(name="memory"),),
        processors=tuple(
            Processor(name=name, kind=kind, tiers=access)
            for name, kind in zip(names, split.kinds, strict=True)
        ),
    )
    end = [0] * len(graph.ops)
    free = [0] * len(names)
    runs = []
    for i, before in enumerate(precedence(graph).predecessors):
        s = split.stage[i]
        start = max([free[s], *(end[j] for j in before)])
        free[s] = end[i] = start + graph.ops[i].all_modes[modes[i]].duration_ns
        runs.append(Run(i, modes[i], start, end[i], names[s]))
    return lower_runs(graph, runs, machine)


def split_of_plan(graph: Graph, plan: Plan) -> Split:
    """Return the split that a plan of stages stands for, stages in the order of the machine's processors.

    Raises
    ------
    InstanceError
        If it is a plan for another graph, or does not run each op once on a processor of its machine.
    """
    if plan.graph_sha256 not in (None, graph.sha256):
        raise InstanceError(f"found a plan for another graph than {graph.name!r}")
    at = {p.name: s for s, p in enumerate(plan.machine.processors)}
    stage = {run.op: at.get(run.processor, -1) for run in plan.runs}
    mode = {run.op: run.mode for run in plan.runs}
    if len(plan.runs) != len(graph.ops) or sorted(stage) != [*range(len(graph.ops))] or -1 in stage.values():
        raise InstanceError(f"found a plan of {len(plan.runs)} runs, expected one of each op on a processor")
    named = [_NAME.fullmatch(p.name) for p in plan.machine.processors]
    return Split(
        stage=tuple(stage[i] for i in range(len(graph.ops))),
        kinds=tuple(p.kind for p in plan.machine.processors),
        replicas=tuple(int(x[1] or 1) if x else 1 for x in named),
        again=tuple(int(i) for x in named if x and x[2] for i in x[2].split("+")),
        modes=tuple(mode[i] for i in range(len(graph.ops))),
    )

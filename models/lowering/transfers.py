"""Lowering: from runs on processors with memories of their own, and transfers, to the plan that does both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..derived.values import values_of
from ..graph import Accounting
from .builder import PlanBuilder

if TYPE_CHECKING:
    from ..graph import Graph
    from ..machine import Machine
    from ..plan import Plan, Run


class Sending(NamedTuple):
    """What op `writer` makes of `tensor` goes to tier `dst` over ``[start, end)``, in ns."""

    writer: int
    tensor: int
    dst: str
    start: int
    end: int


def lower_transfers(graph: Graph, runs: Sequence[Run], sendings: Iterable[Sending], machine: Machine) -> Plan:
    """Return the plan: its runs, the copies between memories, and what is where how long.

    An op accesses its tensors in its processor's memory, the first tier of that processor. A tensor comes to
    a memory where an op writes it or a transfer to it begins, and stays until the last use there: the end of
    a run or of a transfer to elsewhere; under ``replace`` a run that only reads it uses it at its start. An
    initial tensor is from time 0 on in the memory of every op that accesses its first version; where no op
    does, a final one is in the last tier. A final tensor stays in the memory of the op that wrote it last;
    where no op wrote it, wherever it began.

    Parameters
    ----------
    graph
        Its accounting decides where frees stand.
    runs
        One of each op, not checked (the verifier does).
    """
    home = {p.name: p.tiers[0].tier for p in machine.processors}
    tier = {run.op: home[run.processor] for run in runs}
    out = PlanBuilder(graph, machine, runs=list(runs))
    until: dict[tuple[int, str], int] = {}
    for run in runs:
        op = graph.ops[run.op]
        for t in {*op.reads, *op.writes}:
            held = graph.accounting is Accounting.COEXIST or t in op.writes
            use = run.end if held else run.start
            until[t, tier[run.op]] = max(use, until.get((t, tier[run.op]), 0))
    for sending in sendings:
        out.copy(sending.tensor, tier[sending.writer], sending.dst, sending.start, sending.end)
        for place in (tier[sending.writer], sending.dst):
            key = sending.tensor, place
            until[key] = max(sending.end, until.get(key, 0))
    kept: set[tuple[int, str]] = set()
    for value in values_of(graph):
        final = graph.tensors[value.tensor].final and value.last
        places = {tier[i] for i in (value.present if value.writer is None else (value.writer,))}
        if value.writer is None:
            places = places or ({machine.tiers[-1].name} if final else set())
            for place in sorted(places):
                out.start(value.tensor, place)
        if final:
            kept |= {(value.tensor, place) for place in places}
    for (t, place), time in sorted(until.items()):
        if (t, place) not in kept:
            out.free(t, place, time)
    return out.plan(start_tiers={})

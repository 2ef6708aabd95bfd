"""The plan of an order of stays and copies (`sequence`), with given times or the earliest."""

from __future__ import annotations

from collections.abc import Sequence

from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ..states import StateData
from ..weightless import with_weightless
from .sequence import Order, Timing, lasts, lengths, rates, timing


def plan(
    data: StateData,
    problem: Placement,
    order: Order,
    times: Timing,
    *,
    modes: Sequence[int] = (),
    beside: bool = False,
) -> Plan:
    """Return the plan of a timing, ops in these modes (default: the first)."""
    machine, graph, n = problem.machine, problem.graph, data.n
    names, rate = [tier.name for tier in machine.tiers], rates(data, beside=beside)[0]
    period = times.period or 0
    out = PlanBuilder(graph, machine)
    length = lengths(data, order, rate)
    for number, copy in enumerate(order.copies, n + 1):
        way, begin = data.ways[copy.way], times.start[number] % period if period else times.start[number]
        out.copy(data.lives[copy.life].tensor, names[way.src], names[way.dst], begin, begin + length[number])
    for stay in order.stays:
        life = data.lives[stay.life]
        tier = names[stay.tier]
        release = max(
            times.start[i] + y * period + (length[i] if lasts(data, stay, i) else 0) for i, y in stay.uses
        )
        if stay.begin is None:
            out.start(life.tensor, tier)
        else:
            i, y = stay.begin
            begin = times.start[i] + y * period
            shift = -(begin // period) * period - period if period else 0
            if life.lasting and release + shift >= (not life.starts[stay.tier]):
                out.start(life.tensor, tier, valid=begin + length[i] + shift <= 0)
        last = life.accesses[-1] % n if life.accesses else n
        rewritten = last < n and not stay.tier and life.tensor in graph.ops[last].writes
        if rewritten and stay.last:
            continue  # the next version takes its room, or is released behind the op that writes it
        if not life.lasting and all(i != n for i, _ in stay.uses):
            out.free(life.tensor, tier, release)
        elif life.lasting and stay.begin is not None:
            at = release % period
            out.free(life.tensor, tier, at if at or life.starts[stay.tier] else period)
    born = {(life.tensor, life.born) for life in data.lives}
    for k, op in enumerate(graph.ops):
        for t in op.writes:
            if graph.tensors[t].nbytes and (t, k) not in born:
                out.free(t, names[0], times.start[k] + data.duration[k])
        out.run(
            k,
            modes[k] if modes else 0,
            times.start[k],
            times.start[k] + data.duration[k],
            machine.processors[0].name,
        )
    for t, tensor in enumerate(graph.tensors):
        used = [k for k, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        if used and not (tensor.initial or tensor.final or tensor.nbytes):
            out.free(t, names[0], times.start[used[-1]] + data.duration[used[-1]])
    return with_weightless(out.plan(period=times.period), problem)


def plan_of(problem: Placement, data: StateData, order: Order | None) -> Plan | None:
    """Return the fastest plan of an order, without and with copies beside each other; None if it has none."""
    plans = []
    for beside in (False, True) if data.caps else (False,):
        if order is not None and (times := timing(data, order, beside=beside)) is not None:
            plans.append(plan(data, problem, order, times, beside=beside))
    return min(plans, key=problem.evaluate, default=None)

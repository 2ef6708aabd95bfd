"""`first-touch`: every tensor stays where it was first allocated; NUMA's default on fast and slow memory.

Source: the baseline of Hildebrand et al., AutoTM, ASPLOS 2020, section 5: Linux places a page on the fast
node when it is first touched, and on the slow one when that is full.

Steps. Initial tensors are placed in the order of their first accesses, others as they are written: in the
fastest tier of the processor where they fit as long as they live, else in the next. Nothing moves. An op
takes the mode that suits the tiers of its operands, the shortest of these, and what slow accesses add to it.

Abstracted: pages (tensors are placed whole), fragmentation of the pool. Room for the largest workspace, of
each op in the mode that needs least, stays free in the home tier; modes that need more are not taken. An op
can write to another tier than its processor's home only in a mode that says so; where it has none, the tensor
is put at home, or there is no plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ....models.graph import Accounting, Mode, Op
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context, Outcome


def solve_first_touch(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    graph = problem.graph
    ideal = sum(min(mode.duration_ns for mode in op.all_modes) for op in graph.ops)
    context.raise_bound(ideal, kind="sum of durations")
    plan = place(problem)
    if isinstance(plan, str):
        return Outcome(detail=plan)
    context.offer(plan)
    return Outcome()


def place(problem: Placement) -> Plan | str:
    """Return the plan, or which op or tensor finds no room or no mode."""
    graph, machine = problem.graph, problem.machine
    processor = machine.processors[0]
    rates = {a.tier: a.bytes_per_s for a in processor.tiers}
    home = processor.tiers[0].tier
    order = sorted(rates, key=lambda tier: (rates[tier] is not None, -(rates[tier] or 0)))
    room = {t.name: 2**62 if t.capacity is None else t.capacity for t in machine.tiers}
    workspace = max((op.least_workspace for op in graph.ops), default=0)
    room[home] -= workspace
    first, last = _spans(problem)
    where: dict[int, str] = {}

    def touch(t: int, choices: list[str]) -> bool:
        tensor = graph.tensors[t]
        tier = next((x for x in choices if room[x] >= tensor.nbytes), None)
        if tier is None:
            return False
        where[t] = tier
        room[tier] -= tensor.nbytes
        return True

    initial = [t for t, x in enumerate(graph.tensors) if x.initial and (t in first or x.final)]
    for t in sorted(initial, key=lambda t: (first.get(t, len(graph.ops)), t)):
        allowed = _allowed(problem, t)
        written = any(t in op.writes for op in graph.ops)
        tiers = [x for x in order if x in allowed and (x == home or not written or _can_write(problem, t, x))]
        if not touch(t, tiers):
            return (
                f"tensor {t} {graph.tensors[t].name!r} finds no tier with room where it may start and be used"
            )
    out, now = PlanBuilder(graph, machine), 0
    for t in sorted(where):
        out.start(t, where[t])

    def leave(some: Iterable[int]) -> None:
        for t in sorted(some):
            room[where[t]] += graph.tensors[t].nbytes
            out.free(t, where[t], now)

    replace = graph.accounting is Accounting.REPLACE
    for k, op in enumerate(graph.ops):
        gone = {t for t in (*op.reads, *op.writes) if last[t] == k and not graph.tensors[t].final}
        if replace:  # what it only reads goes first
            leave(gone - {*op.writes})
            gone &= {*op.writes}
        for t in op.writes:
            if t in where:
                continue
            if not touch(t, [x for x in order if x == home or _can_write(problem, t, x)]):
                return f"op {k} {op.name!r} finds no room for tensor {t} where it can write it"
        suited = [
            (_length(problem, k, mode, where), n)
            for n, mode in enumerate(op.all_modes)
            if mode.workspace <= workspace and _suits(op, mode, where, home)
            if processor.kind in (mode.processors or (processor.kind,))
        ]
        if not suited:
            return f"op {k} {op.name!r} has no mode for the tiers of its operands"
        length, number = min(suited)
        out.run(k, number, now, now + length, processor.name)
        now += length
        leave(gone)
    return out.plan(period=now if problem.periodic else None)


def _spans(problem: Placement) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first and the last op that accesses each tensor."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, op in enumerate(problem.graph.ops):
        for t in (*op.reads, *op.writes):
            first.setdefault(t, k)
            last[t] = k
    return first, last


def _allowed(problem: Placement, t: int) -> tuple[str, ...]:
    """Return the tiers where an initial tensor may be at time 0."""
    return problem.may_start(problem.graph.tensors[t].kind)


def _can_write(problem: Placement, t: int, tier: str) -> bool:
    """Return whether every op that writes a tensor has a mode that writes it in a tier."""
    return all(
        any((t, tier) in mode.operands for mode in op.all_modes) for op in problem.graph.ops if t in op.writes
    )


def _suits(op: Op, mode: Mode, where: dict[int, str], home: str) -> bool:
    """Return whether a mode takes its operands where they are."""
    named = dict(mode.operands)
    return all(
        named.get(t, home if t in op.writes else where[t]) == where[t] for t in (*op.reads, *op.writes)
    )


def _length(problem: Placement, k: int, mode: Mode, where: dict[int, str]) -> int:
    """Return the ns of a run: the mode's, and those of all slow accesses together, rounded up."""
    graph, op = problem.graph, problem.graph.ops[k]
    rates = {a.tier: a.bytes_per_s for a in problem.machine.processors[0].tiers}
    extra = Fraction(0)
    for t in {*op.reads, *op.writes}:
        rate = rates[where[t]]
        if rate is not None:
            extra += Fraction(graph.tensors[t].nbytes * SECOND, rate)
    return mode.duration_ns + int(-(-extra // 1))

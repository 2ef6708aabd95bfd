"""Initial tensors of no bytes: where they start, and the copies that bring them to the ops and back.

They take no room and no rate, so models leave them out; a copy of theirs takes the latency of its channel.
A plan without them becomes one with them (`with_weightless`). Each starts in the first tier if it may, else
where the way there and back is shortest. From time 0 on copies bring it to the first tier, if the first op
that accesses it reads it, and everything waits as long as that takes longer than until this op starts. In a
period it leaves the first tier at the end, and what outlives iterations and is written goes back behind the
last op that writes it; the period gets longer by what this takes behind its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.plan import Copy, Free, Plan, Resident
from ...models.problems.placement import Placement

Hops = tuple[tuple[str, str, int], ...]
"""Copies of no bytes one after another: tiers from and to, ns."""


def ways(problem: Placement, *, inward: bool) -> dict[str, Hops]:
    """Return by tier the shortest way to the first one, or from there; none where there is none.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&machine=a100-40g-pcie3")
    >>> [len(ways(problem, inward=True)[tier.name]) for tier in problem.machine.tiers]
    [0, 1, 1]
    """
    routes: dict[str, Hops] = {problem.machine.tiers[0].name: ()}
    for _ in problem.machine.tiers:
        for c in problem.machine.channels:
            near, far = (c.dst, c.src) if inward else (c.src, c.dst)
            if near in routes:
                hop = (c.src, c.dst, c.latency_ns)
                hops = (hop, *routes[near]) if inward else (*routes[near], hop)
                if far not in routes or _ns(hops) < _ns(routes[far]):
                    routes[far] = hops
    return routes


def _ns(hops: Hops) -> int:
    return sum(ns for _, _, ns in hops)


def with_weightless(
    plan: Plan, problem: Placement, ops: Sequence[int] | None = None, tensors: Sequence[int] | None = None
) -> Plan:
    """Return a plan that lacks the initial tensors of no bytes with them.

    Parameters
    ----------
    plan
        In which each op that the problem has runs once.
    problem
        On a machine whose one processor uses the first tier.
    ops, tensors
        What those of the problem are called in the plan; default: the same.
    """
    graph = problem.graph
    device, inward, outward = problem.machine.tiers[0].name, *(ways(problem, inward=x) for x in (True, False))
    numbers = range(len(graph.ops)) if ops is None else ops
    for t, tensor in enumerate(graph.tensors):
        if not tensor.initial or tensor.nbytes:
            continue
        name = t if tensors is None else tensors[t]
        some = [x for x in problem.may_start(tensor.kind) if x in inward]
        tier = min(some, key=lambda x: _ns(inward[x]) + _ns(outward[x]))
        plan = replace(plan, start=(*plan.start, Resident(name, tier)))
        users = [(numbers[k], op) for k, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        if tier != device and users:
            read = t in users[0][1].reads
            writers = {k for k, op in users if t in op.writes}
            plan = _brought(plan, name, inward[tier] if read else (), users[0][0])
            if plan.period is not None:
                back = outward[tier] if tensor.final and writers else ()
                plan = _returned(plan, name, device, tier, back, writers)
    return plan


def _brought(plan: Plan, name: int, hops: Hops, first: int) -> Plan:
    """Return the plan with copies from time 0 on, before the op that accesses the tensor first."""
    begin = next(run.start for run in plan.runs if run.op == first)
    copies = _chain(name, hops, 0)
    plan = _later(plan, max([0, *(copy.end - begin for copy in copies)]))
    return replace(plan, copies=(*plan.copies, *copies))


def _returned(plan: Plan, name: int, device: str, tier: str, back: Hops, writers: set[int]) -> Plan:
    """Return the periodic plan in which the tensor is at the end where it was at time 0, and only there."""
    frees = list[Free]()
    ends = sorted(run.end for run in plan.runs if run.op in writers)
    passed = {copy.dst for copy in plan.copies if copy.tensor == name} - {device}
    if ends:  # copies of the old content
        frees += [Free(name, x, ends[0]) for x in sorted({tier, *passed})]
        copies = _chain(name, back, ends[-1])
        plan = _longer(plan, max([0, *(copy.end - (plan.period or 0) for copy in copies)]))
        plan = replace(plan, copies=(*plan.copies, *copies))
        passed = {copy.dst for copy in copies}
    frees += [Free(name, x, plan.period or 0) for x in sorted({device, *passed} - {tier})]
    return replace(plan, frees=(*plan.frees, *frees))


def _chain(name: int, hops: Hops, at: int) -> list[Copy]:
    """Return copies one after another, of no ns where one alone from time 0 on has no latency."""
    copies, least = list[Copy](), int(at > 0 or len(hops) > 1)
    for src, dst, ns in hops:
        copies.append(Copy(name, src, dst, at, at + max(ns, least)))
        at = copies[-1].end
    return copies


def _later(plan: Plan, ns: int) -> Plan:
    """Return the plan in which nothing happens for so many ns from time 0 on."""
    if not ns:
        return plan
    plan = _longer(plan, ns)
    return replace(
        plan,
        runs=tuple(replace(x, start=x.start + ns, end=x.end + ns) for x in plan.runs),
        copies=tuple(replace(x, start=x.start + ns, end=x.end + ns) for x in plan.copies),
        frees=tuple(replace(x, time=x.time + ns) for x in plan.frees),
    )


def _longer(plan: Plan, ns: int) -> Plan:
    """Return the plan in which nothing happens for so many ns at the end of a period.

    A copy across the end takes longer, at a lower rate.
    """
    period = plan.period
    if period is None or not ns:
        return plan
    copies = tuple(replace(x, end=x.end + ns) if x.end > period else x for x in plan.copies)
    return replace(plan, period=period + ns, copies=copies)

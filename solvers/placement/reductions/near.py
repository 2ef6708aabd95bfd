"""Tiers that the first one does not see, such as a drive behind the host: for planners, none.

What may start nearer stays in the nearer tiers; they are then a machine of their own, and a plan for it is
one for the whole machine. What must start far away is brought nearer first, one copy after the other, and
then the plan runs: a plan, but with nothing beside these copies. Where the nearer tiers are too small, the
far one is used through them (`relays`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....models.machine import Channel, Machine
from ....models.plan import Copy, Plan, Resident
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .relays import through_host


def without_far_tiers(problem: Placement) -> tuple[Placement, Callable[[Plan], Plan]]:
    """Return the problem on the nearer tiers, and what makes a plan of it one of the first problem.

    Where the nearer tiers are too small for all, the far one is used through them, if `relays` can. The
    problem itself if every tier is near, no outer one is, the processor uses a far one, or something cannot
    be brought nearer: what must start far away in every period, or has no channel to a nearer tier. Problems
    of several processors have none of this (`lowtide.solvers.placement.reductions.replicas` comes first).
    """
    machine = problem.machine
    assert len(machine.processors) == 1
    device, *outer = (tier.name for tier in machine.tiers)
    pairs = {(c.src, c.dst): c for c in machine.channels}
    near = [device, *(x for x in outer if {(device, x), (x, device)} <= pairs.keys())]
    used = {access.tier for access in machine.processors[0].tiers}
    if len(near) == 1 or len(near) == len(machine.tiers) or not used <= {*near}:
        return problem, lambda plan: plan
    start: dict[str, tuple[str, ...]] = {}
    ways: dict[str, Channel] = {}
    for kind in sorted({str(t.kind) for t in problem.graph.tensors if t.initial}):
        tiers = problem.may_start(kind)
        start[kind] = tuple(x for x in tiers if x in near)
        if not start[kind]:
            direct = [pairs[src, dst] for src in tiers for dst in near[1:] if (src, dst) in pairs]
            if problem.periodic or not direct:
                return problem, lambda plan: plan
            ways[kind] = max(direct, key=lambda c: c.bytes_per_s)
            start[kind] = (ways[kind].dst,)

    def restored(plan: Plan) -> Plan:
        return replace(_brought(plan, problem, ways), machine=machine, start_tiers=None)

    nearer = replace(problem, machine=_part(machine, near), start=start)
    if nearer.impossible() is not None and (relayed := through_host(problem)) is not None:
        return relayed
    return nearer, restored


def _part(machine: Machine, near: list[str]) -> Machine:
    """Return the machine of some tiers; joint caps count for the channels that are left."""
    channels = tuple(c for c in machine.channels if {c.src, c.dst} <= {*near})
    left = {(c.src, c.dst) for c in channels}
    groups = (replace(g, channels=tuple(x for x in g.channels if x in left)) for g in machine.groups)
    return replace(
        machine,
        tiers=tuple(t for t in machine.tiers if t.name in near),
        channels=channels,
        groups=tuple(g for g in groups if g.channels),
    )


def _brought(plan: Plan, problem: Placement, ways: dict[str, Channel]) -> Plan:
    """Return the plan behind copies of what must start far away."""
    tensors, groups = problem.graph.tensors, problem.machine.groups
    start: list[Resident] = []
    copies: list[Copy] = []
    now = 0
    for item in plan.start:
        channel = ways.get(str(tensors[item.tensor].kind))
        if channel is None:
            start.append(item)
            continue
        low, high = item.bytes or (0, tensors[item.tensor].nbytes)
        caps = (g.bytes_per_s for g in groups if (channel.src, channel.dst) in g.channels)
        end = now + channel.latency_ns - (-(high - low) * SECOND // min((channel.bytes_per_s, *caps)))
        start.append(replace(item, tier=channel.src))
        copies.append(Copy(item.tensor, channel.src, channel.dst, now, end, item.bytes))
        now = end
    if not now:
        return plan
    later = (replace(c, start=c.start + now, end=c.end + now) for c in plan.copies)
    return replace(
        plan,
        start=tuple(start),
        runs=tuple(replace(r, start=r.start + now, end=r.end + now) for r in plan.runs),
        copies=(*copies, *later),
        frees=tuple(replace(f, time=f.time + now) for f in plan.frees),
    )

"""All tensors in the tier that the processor uses: the plan that `auto` begins with where they fit."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.lowering.builder import PlanBuilder
from ...models.plan import Plan
from ...models.problems.placement import Placement


def keep_all(problem: Placement) -> Iterator[Plan]:
    """Yield the single run of one processor that fetches one tensor after the other, then runs op by op."""
    graph, machine = problem.graph, problem.machine
    if problem.periodic or len(machine.processors) != 1:
        return
    (processor,), tiers = machine.processors, {tier.name: tier for tier in machine.tiers}
    near = processor.tiers[0].tier
    room = tiers[near].capacity
    used = {t for op in graph.ops for some in (op.reads, op.writes) for t in some}
    used |= {t for t, x in enumerate(graph.tensors) if x.initial and x.final}
    needed = sum(graph.tensors[t].nbytes for t in used)
    modes = [next((m for m, mode in enumerate(op.all_modes) if not mode.operands), None) for op in graph.ops]
    if (room is not None and needed > room) or None in modes:
        return
    into = {c.src: c for c in machine.channels if c.dst == near}
    cap = min((group.bytes_per_s for group in machine.groups), default=None)
    made, now = PlanBuilder(graph, machine), 0
    for t in sorted(used):
        tensor = graph.tensors[t]
        if not tensor.initial:
            continue
        allowed = problem.may_start(tensor.kind)
        tier = near if near in allowed else next((x for x in allowed if x in into), None)
        if tier is None:
            return
        made.start(t, tier)
        if tier != near:
            channel = into[tier]
            rate = channel.bytes_per_s if cap is None else min(channel.bytes_per_s, cap)
            end = now + channel.latency_ns + max(1, -(-tensor.nbytes * 10**9 // rate))
            made.copy(t, tier, near, now, end)
            now = end
    for i, (op, m) in enumerate(zip(graph.ops, modes, strict=True)):
        assert m is not None
        end = now + op.all_modes[m].duration_ns
        made.run(i, m, now, end, processor.name)
        now = end
    yield made.plan(start_tiers=problem.starts)

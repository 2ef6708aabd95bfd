"""Actions one after another, and the plan that they make.

*Time of a discard.* The end of the run or transfer before it. Under ``replace``, what a run only reads, if it
is discarded next after the run, goes at its start, as its writes are allocated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ..errors import InstanceError
from ..graph import Accounting, Graph
from ..machine import Machine
from ..plan import Copy, Plan, Run
from ..units import SECOND
from .builder import PlanBuilder


@dataclass(frozen=True, slots=True)
class Compute:
    """Run an op in one of its modes."""

    op: int
    mode: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copy a whole tensor to another tier."""

    tensor: int
    src: str
    dst: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Release a tensor from a tier."""

    tensor: int
    tier: str


Action = Compute | Transfer | Discard


def transfer_ns(machine: Machine, src: str, dst: str, nbytes: int) -> int:
    """Return the nanoseconds that a copy takes alone on its channel: latency, and bytes at the full rate.

    Raises
    ------
    InstanceError
        If there is no such channel.
    """
    for channel in machine.channels:
        if (channel.src, channel.dst) == (src, dst):
            caps = [g.bytes_per_s for g in machine.groups if (src, dst) in g.channels]
            rate = min([channel.bytes_per_s, *caps])
            return channel.latency_ns + -(-nbytes * SECOND // rate)
    raise InstanceError(f"machine {machine.name!r}: found no channel from {src!r} to {dst!r}, expected one")


def lower_actions(graph: Graph, actions: Iterable[Action], machine: Machine) -> Plan:
    """Return the plan that carries out the actions back to back; nothing is checked.

    Initial tensors that are accessed or final are in the machine's first tier at time 0.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.lowering.actions import Compute, Discard, lower_actions
    >>> graph = lt.load("gen:chain?n=2")
    >>> actions = [Compute(0), Compute(0), Compute(1), Discard(0, "memory")]
    >>> [(run.op, run.start) for run in lower_actions(graph, actions, lt.Machine.single()).runs]
    [(0, 0), (0, 1), (1, 2)]
    """
    in_place = graph.accounting is Accounting.REPLACE
    processor = machine.processors[0].name
    ops = graph.ops
    only_read = [set(op.reads) - set(op.writes) for op in ops] if in_place else []
    copy_ns: dict[tuple[int, str, str], int] = {}
    fast = machine.tiers[0].name
    out = PlanBuilder(graph, machine)
    out.start_used(fast)
    begun, now = 0, 0
    early: set[int] = set()
    for action in actions:
        if isinstance(action, Compute):
            op = ops[action.op]
            begun, now = now, now + (op.modes[action.mode] if op.modes else op).duration_ns
            out.run(action.op, action.mode, begun, now, processor)
            early = only_read[action.op] if in_place else early
        elif isinstance(action, Transfer):
            key = (action.tensor, action.src, action.dst)
            if key not in copy_ns:
                nbytes = graph.tensors[action.tensor].nbytes
                copy_ns[key] = transfer_ns(machine, action.src, action.dst, nbytes)
            begun, now = now, now + copy_ns[key]
            out.copy(action.tensor, action.src, action.dst, begun, now)
            early = set()
        else:
            out.free(action.tensor, action.tier, begun if action.tensor in early else now)
    single = not machine.tiers[1:]
    return out.plan(start_tiers=None if single else {x.kind: (fast,) for x in graph.tensors if x.initial})


def actions_of(plan: Plan, graph: Graph) -> tuple[Action, ...]:
    """Return the actions of a plan: its runs and copies by start, frees where they take effect.

    Raises
    ------
    InstanceError
        If runs and copies overlap, the plan has a period, or moves or frees parts of tensors.
    """
    if plan.period is not None:
        raise InstanceError("found a plan with a period, expected none")
    parts = [item.bytes for some in (plan.start, plan.copies, plan.frees) for item in some]
    if any(part is not None for part in parts):
        raise InstanceError("found a plan with parts of tensors, expected whole ones")
    steps: list[Run | Copy] = sorted([*plan.runs, *plan.copies], key=lambda a: (a.start, a.end))
    for a, b in pairwise(steps):
        if b.start < a.end:
            raise InstanceError(
                f"found a plan with two actions at once at {b.start} ns, expected one after another"
            )
    ends = [step.end for step in steps]
    actions: list[tuple[int, int, int, Action]] = []  # steps done before, 1 for frees, tensor
    for k, step in enumerate(steps):
        if isinstance(step, Run):
            actions.append((k + 1, 0, 0, Compute(step.op, step.mode)))
        else:
            actions.append((k + 1, 0, 0, Transfer(step.tensor, step.src, step.dst)))
    for free in plan.frees:
        done = bisect_right(ends, free.time)
        if graph.accounting is Accounting.REPLACE and done < len(steps) and steps[done].start <= free.time:
            step = steps[done]
            op = graph.ops[step.op] if isinstance(step, Run) else None
            done += op is not None and free.tensor in op.reads and free.tensor not in op.writes
        actions.append((done, 1, free.tensor, Discard(free.tensor, free.tier)))
    actions.sort(key=lambda item: item[:3])
    return tuple(action for *_, action in actions)

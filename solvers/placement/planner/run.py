"""One simulation of the planner: from a problem and a setting to the tables of the kernel, and to a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....models.graph import Accounting
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import GIB, MIB
from ...engines.arrays import Records
from ..world.channels import (
    DEVICE,
    DONE,
    FULL_LOG,
    HOST,
    HOST_IN,
    HOST_OUT,
    PAUSED,
    REPEATS,
    SLOW,
    SLOW_IN,
    SLOW_OUT,
    STUCK,
    pairs,
)
from ..world.chunks import coarse_enough
from .emission import emitted_plan
from .planner_kernel import simulate
from .setting import PlannerSetting
from .tables import CHANNEL, LOG, STATE, PlannerTables
from .workload import Workload, workload

EVENTS = 256
"""After which the time is looked at."""
ITERATIONS = 10
"""After which a state that does not repeat is given up."""
SHARE = 40_000
"""Of the device: tensors below it, and below 1 MiB, stay there."""
LOG_ROWS = 2**19
"""Rows of the log at first; there are four times as many as often as needed."""
HOST_PART = 16
"""Of the host: the most that inputs may take there which could start in the slow tier as well."""
UNLIMITED = 2**60
"""Bytes of a tier without a capacity."""


def simulated_plan(
    problem: Placement,
    setting: PlannerSetting,
    believed: Sequence[int] | None = None,
    tick: Callable[[], object] = lambda: None,
) -> Plan | str:
    """Return the plan of a setting, or why there is none; `believed` durations are those of its forecasts.

    `tick` is called again and again, and may raise.
    """
    machine = problem.machine
    names = [t.name for t in machine.tiers]
    channel, joint = _channels(problem)
    entry = _entries(problem) if problem.periodic else [0] * len(problem.graph.tensors)
    if isinstance(entry, str):
        return entry
    largest = max((t.nbytes for t in problem.graph.tensors), default=1)
    capacity = machine.tiers[0].capacity
    work = workload(
        problem.graph,
        chunk=coarse_enough(problem, max(1, largest) if problem.whole else setting.chunk),
        least=max(1, min(MIB, (capacity or 0) // SHARE)),
        rate=int(channel[HOST_IN].full_rate),
        lead=setting.lead,
        entry=entry,
        periodic=problem.periodic,
        believed=believed,
    )
    state = _state(problem, setting, int(work.chunk["length"].max(initial=1)), joint)
    for t, bits in zip(problem.graph.tensors, entry, strict=True):  # inputs keep their room
        state[0].host_room -= t.nbytes * (bits & 4 > 0)
        state[0].slow_room -= t.nbytes * (bits & 2 > 0)
    if problem.periodic:  # what no op accesses stays in the last tier
        used = {t for op in problem.graph.ops for t in (*op.reads, *op.writes)}
        idle = (x for t, x in enumerate(problem.graph.tensors) if x.initial and x.final and t not in used)
        last = "host_room" if len(names) == 2 else "slow_room"
        state[last] -= sum(x.nbytes for x in idle)
    if (excess := _place(problem, work, state)) > 0:
        return f"what must start in one tier exceeds the capacity by {excess} bytes"
    world = PlannerTables(
        op=work.op,
        by_op=work.by_op,
        access=work.access,
        tensor=work.tensor.copy(),
        chunk=work.chunk,
        channel=channel,
        state=state,
        log=np.zeros(LOG_ROWS, LOG),
        load=work.op["live"].copy(),
        least=work.op["floor"].copy(),
        next_deficit=np.zeros(len(work.op), np.int64),
        lists=np.zeros((4, len(work.tensor)), np.int64),
        listed=np.zeros(4, np.int64),
        is_listed=np.zeros((4, len(work.tensor)), np.int64),
        scratch=np.zeros(len(work.op) + len(work.tensor), np.int64),
    )
    while (ended := simulate(world, ITERATIONS, EVENTS))[0] in (PAUSED, FULL_LOG):
        tick()
        if ended[0] == FULL_LOG:
            longer = np.zeros(4 * len(world.log), LOG)
            longer[: len(world.log)] = world.log
            world = world._replace(log=longer)
    how, time = ended
    if how in (REPEATS, DONE):
        period = int(time) if problem.periodic else None
        return emitted_plan(problem.graph, machine, work, world, period, names, tick)
    if how == STUCK:
        time //= 1 + int(state[0].twice)
        return f"stuck before op {time} {problem.graph.ops[time].name!r}: no room can be made for it"
    return f"the state does not repeat within {ITERATIONS} iterations"


def _state(problem: Placement, setting: PlannerSetting, slot: int, joint: tuple[int, int]) -> Records:
    """Return the state at first; `slot` is the largest chunk."""
    machine = problem.machine
    slots = setting.slots if len(machine.tiers) == 3 else 0
    device, host, slow = (*(t.capacity for t in machine.tiers), None)[:3]
    state = np.zeros(1, STATE)
    s = state[0]
    s.running = -1
    s.joint_out, s.joint_in = joint
    s.memory = (UNLIMITED if device is None else device) - slots * slot
    s.host_room = UNLIMITED if host is None else host
    s.slow_room = UNLIMITED if slow is None else slow
    s.slots, s.slot_bytes, s.margin, s.tail_slack = slots, slot, 4 * slot, 2 * GIB
    s.horizon, s.gate, s.displace, s.eager = setting.horizon, setting.gate, setting.displace, setting.eager
    s.periodic, s.twice = problem.periodic, problem.graph.accounting is Accounting.REPLACE
    return state


def _channels(problem: Placement) -> tuple[Records, tuple[int, int]]:
    """Return the idle channels with their rates and latencies, and the joint caps, in kB/s rounded down."""
    machine = problem.machine
    names = [t.name for t in machine.tiers]
    ends = pairs(names)
    by_pair = {(c.src, c.dst): c for c in machine.channels}
    channels = [by_pair.get(pair) for pair in ends]
    rate = [0 if c is None else c.bytes_per_s // 1000 for c in channels]
    joint = [2**40, 2**40]
    for group in machine.groups:
        for side in (0, 1):
            under = {ends[2 * side], ends[2 * side + 1]} & set(group.channels)
            if len(under) == 2:
                joint[side] = min(joint[side], group.bytes_per_s // 1000)
            elif under:
                k = ends.index(under.pop())
                rate[k] = min(rate[k], group.bytes_per_s // 1000)
    if problem.whole:  # a copy keeps its rate: the slow tier's share of a joint cap stays reserved
        for fast, rest, cap in ((HOST_OUT, SLOW_OUT, joint[0]), (HOST_IN, SLOW_IN, joint[1])):
            if rate[rest] >= cap:
                rate[rest] = cap // 2
            rate[fast] = min(rate[fast], cap - rate[rest])
        joint = [2**40, 2**40]
    channel = np.zeros(4, CHANNEL)
    channel["carried"] = -1
    channel["full_rate"] = rate
    channel["latency"] = [0 if c is None else c.latency_ns for c in channels]
    return channel, (joint[0], joint[1])


def _early(problem: Placement, inputs: set[int]) -> set[int]:
    """Return the inputs that must be on the device at first, or have room there beside the first op."""
    graph, device = problem.graph, problem.machine.tiers[0]
    must = {t for t in inputs if set(problem.may_start(str(graph.tensors[t].kind))) == {device.name}}
    first = {t: k for k, op in reversed([*enumerate(graph.ops)]) for t in (*op.reads, *op.writes)}
    op = graph.ops[0]
    room = UNLIMITED if device.capacity is None else device.capacity
    room -= op.least_workspace + sum(graph.tensors[t].nbytes for t in {*op.writes} - {*op.reads} - inputs)
    early = set()
    for t in sorted(inputs, key=lambda t: (t not in must, first.get(t, 0), t)):
        if graph.tensors[t].nbytes <= room or t in must:
            room -= graph.tensors[t].nbytes
            early.add(t)
    return early


def _entries(problem: Placement) -> list[int] | str:
    """Return per tensor where an input of a period starts, 1 for the device + 2 for slow or 4 for the host.

    Wherever it may: on the device because it is needed soon, as far as there is room beside what the first op
    makes, and outside because it need not be copied there then. On the host if all inputs together hardly
    fill it.
    """
    tiers, graph = problem.machine.tiers, problem.graph
    written = {t for op in graph.ops for t in op.writes}
    inputs = {t for t, x in enumerate(graph.tensors) if x.initial and not x.final}
    host, far = tiers[1].capacity, tiers[-1].capacity
    total = sum(graph.tensors[t].nbytes for t in inputs)
    fits = host is None or total <= host // HOST_PART or (far is not None and total > far)
    early = _early(problem, inputs)
    entries = []
    for t, tensor in enumerate(graph.tensors):
        allowed = problem.may_start(str(tensor.kind))
        slow = 2 if len(tiers) == 3 and tiers[2].name in allowed else 0
        outside = 4 if tiers[1].name in allowed and (fits or not slow) else slow
        here = 1 if tiers[0].name in allowed and t in early else 0
        if t not in inputs:
            entries.append(0)
        elif t in written:  # the room that it keeps on the host would be that of another version
            if not (here or slow):
                return f"found no room at first for input {tensor.name!r}, which an op writes"
            entries.append(here or slow)
        else:
            entries.append(here | outside)
    return entries


def _place(problem: Placement, work: Workload, state: Records) -> int:
    """Choose where tensors are at first; return by how many bytes that exceeds a tier.

    They fill the device by first use, as far as they may start there; then the host, then the slow tier.
    """
    tensor, graph = work.tensor, problem.graph
    names = [t.name for t in problem.machine.tiers]
    memory, host, slow = int(state[0].memory), int(state[0].host_room), int(state[0].slow_room)
    room = max(memory - int(work.op["live"].max(initial=0)), memory // 4)
    first = work.access["at"][tensor["first_access"][:-1]]
    taken = 0
    for _, i in sorted((int(use), i) for i, use in enumerate(first)):
        x = graph.tensors[int(work.index[i])]
        if not x.initial or (problem.periodic and not x.final):
            continue
        size = int(tensor[i].length)
        allowed = problem.may_start(x.kind)
        movable = bool(tensor[i].movable)
        if names[0] in allowed and (size <= room or not movable or allowed == (names[0],)):
            room -= size
            taken += size
            place = DEVICE
        elif names[1] in allowed and (size <= host or allowed[-1] in names[:2] or size > slow):
            host -= size
            place = HOST
        else:
            slow -= size
            place = SLOW
        tensor[i].place = place + 1
    return max(taken - memory, -host, -slow)

"""The event-driven planner of tensor placement, run to its periodic state.

The simulation of an on-line policy over several iterations; when the state at the end of an iteration is
that at its beginning, the log of the iteration is a periodic plan. Tensors are cut into equal chunks. A
chunk is on the device or not, has a copy of its current version on the host tier, on the slow tier, on both
or on neither (then it is *dirty*, else *clean*). There are at most four channels, device to host, device to
slow, and back, one chunk on each at a time; the slow tier goes first where they share a cap, and the rate
of the other follows at once (the copy goes on as another one). For every op of the next iteration two
forecasts are kept:

* ``load``: bytes on the device if nothing more is dropped;
* ``least``: the same without all that is clean and could be away then: in the gaps of its current version
  between accesses, each shortened at its end by the *lead*, the time that its return takes.

The first op whose ``least`` exceeds the memory is the *deficit*. At every event, until nothing changes:

1. The next op starts if its tensors are there and what it creates fits, perhaps after clean chunks were
   dropped, furthest next use first. A write cancels copies under way and makes those that exist stale.
2. While there is a deficit, each channel outwards copies the dirty chunk that could be away at the deficit
   and whose use behind it is furthest (Belady's rule seen from the deficit); reads before the deficit do
   not matter: copying is not releasing. A full host forgets copies of chunks that are also on the device,
   nearest use first.
3. Each channel inwards fetches the absent chunk whose use is nearest, if the load stays within the memory
   until then, perhaps after dropping chunks with a later use; else it waits. The host looks a horizon
   ahead.
4. *Staging*: with a full host and nothing else to fetch from it, the chunk there with the furthest use is
   fetched into a slot of its own and passed on to the slow tier.

What the slow tier alone holds must come back through its channel before it is used. The *tail cap* says for
each op u of this iteration that bytes only there with a use at u or later are at most what the channel
brings from the start of u to the iteration's end, plus a slack; staging obeys it, and so does copying to
the slow tier while an op is running.

Where nothing can happen any more, one round without lead, cap and horizon is tried; if that does not help
either, the setting has failed. A portfolio of settings is tried, whole tensors or chunks as the problem says.

Sources: forecast and rules are this project's; eager copies out and in after Zhang et al., G10, MICRO 2023;
the choice by furthest next use is Belady's (1966), used for tensors by SwapAdvisor (ASPLOS 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.placement import Placement
from ....models.plan import Plan
from ...context import Context, Outcome
from .workload import Integers, Workload, workload

if TYPE_CHECKING:
    from .planner_kernel import Links, Settings, State

MIB, GIB = 2**20, 2**30
ITERATIONS = 8
"""After which a state that does not repeat is given up."""
SHARE = 40_000
"""Of the device: tensors below it, and below 1 MiB, stay there."""
LOG_ROWS = 2**20
"""Rows of the first log; it is doubled as often as needed."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the portfolio varies.

    Attributes
    ----------
    chunk
        Largest chunk in bytes.
    lead
        Of a return, in sixteenths of the time that the tensor takes on its channel.
    horizon
        ns that the host looks ahead.
    slots
        For staging; 0 for none.
    gate
        Whether the tail cap binds copies to the slow tier.
    displace
        Whether a fetch may drop chunks with a later use.
    """

    chunk: int = 16 * MIB
    lead: int = 16
    horizon: int = 8 * 10**9
    slots: int = 1
    gate: bool = True
    displace: bool = True


ENDLESS_HORIZON = 10**15


def portfolio() -> Iterator[Setting]:
    """Yield settings, the most promising first, at coarse chunks, then at finer ones."""
    base = Setting()
    free = replace(base, slots=0, gate=False)
    yield from (
        base,
        free,
        replace(base, horizon=ENDLESS_HORIZON),
        replace(base, lead=80),
        replace(base, gate=False),
        replace(base, lead=48),
    )
    for chunk in (8 * MIB, 4 * MIB, 32 * MIB, 64 * MIB):
        yield replace(base, chunk=chunk)
        yield replace(free, chunk=chunk)


def solve_planner(problem: Placement, context: Context) -> Outcome:
    """Offer the plan of every setting until the time is up."""
    check_machine(problem)
    context.raise_bound(ideal_time(problem), kind="sum of durations")
    detail = try_settings(problem, context, lambda: context.expired)
    if context.closed:
        return Outcome()
    return Outcome(reason="time" if context.expired else None, detail=detail)


def ideal_time(problem: Placement) -> int:
    """Return the sum of the durations in ns: no period is shorter, because one processor runs all ops."""
    return sum(min(mode.duration_ns for mode in op.all_modes) for op in problem.graph.ops)


def try_settings(problem: Placement, context: Context, expired: Callable[[], bool]) -> str:
    """Offer the plan of every setting; return why the last one had none, if none had."""
    detail = ""
    for setting in portfolio():
        if expired() or context.closed:
            break
        plan = plan_periodically(problem, setting)
        if isinstance(plan, Plan):
            context.offer(plan)
        else:
            detail = plan
    return detail if context.answer is None else ""


def first_plan(problem: Placement, context: Context) -> Plan | str:
    """Return the plan of the first setting that has one, else why the last one has none."""
    plan: Plan | str = "no time"
    for setting in portfolio():
        if context.expired:
            break
        plan = plan_periodically(problem, setting)
        if isinstance(plan, Plan):
            break
    return plan


def check_machine(problem: Placement) -> None:
    """Raise unless the planner can serve the machine and the graph.

    Raises
    ------
    UsageError
        If it has several processors, reads operands in place elsewhere than in the first tier, or has more
        than two outer tiers; if the accounting is ``replace``.
    """
    machine = problem.machine
    fault = None
    if problem.graph.accounting is not Accounting.COEXIST:
        fault = f"accounting {problem.graph.accounting}, expected coexist"
    elif len(machine.processors) != 1 or [a.tier for a in machine.processors[0].tiers] != [
        machine.tiers[0].name
    ]:
        fault = "another use of tiers, expected one processor that reads and writes the first tier only"
    elif not 2 <= len(machine.tiers) <= 3:
        fault = f"{len(machine.tiers)} tiers, expected two or three"
    elif any(len(op.all_modes) > 1 for op in problem.graph.ops):
        fault = "ops with several modes, expected one each"
    elif not problem.periodic:
        fault = "a single run, expected a periodic problem"
    if fault:
        raise UsageError(f"placement by the planner, machine {machine.name!r}: found {fault}")


def plan_periodically(problem: Placement, setting: Setting) -> Plan | str:
    """Return the periodic plan of a setting, or why there is none."""
    from . import planner_kernel as kernel
    from .emission import periodic_plan

    machine = problem.machine
    names = [t.name for t in machine.tiers]
    links = _links(problem)
    chunk = max((t.nbytes for t in problem.graph.tensors), default=1) or 1 if problem.whole else setting.chunk
    capacity = machine.tiers[0].capacity
    least = max(1, min(MIB, (capacity or 0) // SHARE))
    work = workload(problem.graph, chunk, least, int(links.rate[kernel.HOST_IN]), _entries(problem))
    slot = int(work.chunk_bytes.max(initial=1))
    slots = setting.slots if len(names) == 3 else 0
    settings = kernel.Settings(
        memory=(2**60 if capacity is None else capacity) - slots * slot,
        host=2**60 if (host := machine.tiers[1].capacity) is None else host,
        lead=setting.lead,
        horizon=setting.horizon,
        slots=slots,
        slot_bytes=slot,
        margin=4 * slot,
        tail_slack=2 * GIB,
        gate_slack=0,
        gate=int(setting.gate),
        displace=int(setting.displace),
    )
    rows = LOG_ROWS
    while True:
        state = _first_state(work, settings)
        log = np.zeros((rows, 7), dtype=np.int64)
        how, period, _ = kernel.simulate(work, links, settings, state, log, ITERATIONS)
        if how != kernel.FULL_LOG:
            break
        rows *= 2
    if how == kernel.PERIODIC:
        done = log[: state.scalars[kernel.LOGGED]]
        return periodic_plan(problem.graph, machine, work, state, done, int(period), names)
    if how == kernel.STUCK:
        return f"stuck before op {period} {problem.graph.ops[period].name!r}: no room can be made for it"
    return f"the state does not repeat within {ITERATIONS} iterations"


def _links(problem: Placement) -> Links:
    """Return rates and latencies of the four channels, and the joint caps, in kB/s rounded down."""
    from .planner_kernel import HOST_IN, HOST_OUT, SLOW_IN, SLOW_OUT, Links

    machine = problem.machine
    names = [t.name for t in machine.tiers]
    host, slow = names[1], names[2] if len(names) == 3 else None
    pairs = [(names[0], host), (names[0], slow), (host, names[0]), (slow, names[0])]
    by_pair = {(c.src, c.dst): c for c in machine.channels}
    found = [by_pair.get(pair) if None not in pair else None for pair in pairs]  # type: ignore[arg-type]
    rate = np.array([0 if c is None else c.bytes_per_s // 1000 for c in found], dtype=np.int64)
    latency = np.array([0 if c is None else c.latency_ns for c in found], dtype=np.int64)
    joint = np.full(2, 2**40, dtype=np.int64)
    for group in machine.groups:
        for side in (0, 1):
            some = {pairs[2 * side], pairs[2 * side + 1]} & set(group.channels)
            others = set(group.channels) - some
            if some and others & set(pairs):
                raise UsageError(
                    f"placement by the planner, group {group.name!r}: found channels of both directions, "
                    "expected one direction"
                )
            if len(some) == 2:
                joint[side] = min(joint[side], group.bytes_per_s // 1000)
            elif some:
                k = pairs.index(some.pop())
                rate[k] = min(rate[k], group.bytes_per_s // 1000)
    if problem.whole:  # a copy keeps its rate: the slow tier's share of a joint cap stays reserved
        for fast, rest, side in ((HOST_OUT, SLOW_OUT, 0), (HOST_IN, SLOW_IN, 1)):
            rate[fast] = max(0, min(rate[fast], joint[side] - rate[rest]))
        joint[:] = 2**40
    return Links(rate=rate, latency=latency, joint=joint)


def _entries(problem: Placement) -> list[int]:
    """Return per tensor where an input starts: 1 on the device if that is allowed, else 2, the slow tier."""
    first, last = problem.machine.tiers[0].name, problem.machine.tiers[-1].name
    entries = []
    for tensor in problem.graph.tensors:
        if not tensor.initial or tensor.final:
            entries.append(0)
            continue
        kind = str(tensor.kind)
        default = (last,) if kind == "input" and problem.start is None else (first,)
        allowed = (problem.start or {}).get(kind, default)
        entries.append(1 if first in allowed else 2)
    return entries


def _first_state(work: Workload, settings: Settings) -> State:
    """Return the state in which persistent tensors fill the device by first use; others have a host copy."""
    from . import planner_kernel as kernel

    def zeros(count: int) -> Integers:
        return np.zeros(count, dtype=np.int64)

    chunks, tensors = len(work.owner), len(work.size)
    state = kernel.State(
        device=zeros(chunks),
        host=zeros(chunks),
        slow=zeros(chunks),
        out_flight=zeros(chunks),
        alive=zeros(tensors),
        next_index=zeros(tensors),
        next_use=zeros(tensors),
        used_by_run=zeros(tensors),
        present=zeros(tensors),
        dirty=zeros(tensors),
        clean=zeros(tensors),
        absent_host=zeros(tensors),
        absent_slow=zeros(tensors),
        target=zeros(tensors),
        load=work.live.copy(),
        least=work.live.copy(),
        flight=np.zeros((4, 6), dtype=np.int64),
        scalars=zeros(10),
    )
    state.flight[:, kernel.CHUNK] = -1
    state.scalars[kernel.RUNNING] = -1
    n = len(work.duration)
    most = settings.memory - int(work.live.max(initial=0) if len(work.live) else 0)
    room = max(most, settings.memory // 4)
    persistent = np.flatnonzero(work.persistent)
    order = sorted(persistent.tolist(), key=lambda i: (int(work.access_op[work.access_first[i]]), i))
    for i in order:
        low, high = work.chunk_first[i], work.chunk_first[i + 1]
        use = int(work.access_op[work.access_first[i]])
        state.alive[i], state.next_use[i] = 1, use
        size = int(work.size[i])
        if size <= room or not work.movable[i]:
            room -= size
            state.device[low:high] = kernel.PRESENT
            state.present[i] = state.dirty[i] = high - low
            state.scalars[kernel.USED] += size
            continue
        in_host = state.scalars[kernel.HOST_USED] + size <= settings.host
        (state.host if in_host else state.slow)[low:high] = kernel.VALID
        (state.absent_host if in_host else state.absent_slow)[i] = high - low
        if in_host:
            state.scalars[kernel.HOST_USED] += size
        kernel.add_range(state.load, 0, use, -size, 0, n)
        kernel.shift_away(work, settings, state, i, -size)
        end = kernel.usable_end(work, settings, i, use, settings.lead)
        kernel.add_range(state.least, end, use, -size, 0, n)
    return state

r"""The earliest times for the orders that a plan has: copies whose latencies overlap.

A copy takes its latency before it takes a channel's rate, so the latencies of many copies may pass while
another one has the channel. What to do is easier to find without them: a method plans as if there were
none, and then the plan gets the times that the machine permits, which is done here.

**Orders.** Of two actions of a plan that are both one of these, the second *waits* for the first if it begins
no sooner than that ends:

1. runs;
2. transfers (copies behind their latency) on one channel, or on channels of one group;
3. accesses to the same bytes in one tier, of which one fills, overwrites or releases them; a run that writes
   does so in every tier;
4. a release in a tier of limited capacity, or the end of a run that has workspace there, and the begin of
   what allocates bytes there.

*Claim.* Other times by which runs and transfers take as long as before, and whoever waited still waits, make
a valid plan of a valid one. *Proof.* Bytes are filled, read, overwritten and released in the same
order. If two transfers on a link, or two stays in a tier (from allocation to release), overlap now, they did
so before: else one had ended before the other began, and so it still would. Intervals of which each two
have a common instant have one in common. So what a channel, a group or a tier carries or holds at any
instant now, it did at some instant before. QED.

**Times.** One variable :math:`x_i` per action, its begin, of a copy that of its transfer; :math:`x_0 = 0` is
the begin of the period :math:`\lambda`. Every constraint is :math:`x_j \ge x_i + w - h \lambda`, with j in
the iteration that comes h behind that of i. What began and ended within the iteration still does so, and what
ended in the next one (copies of tensors that outlive the period), so that the state at the boundary is the
same. For 2 and 4 one more node stands for all that has ended by some instant. The least
solution for a :math:`\lambda` is found by raising times until all constraints hold; the least
:math:`\lambda` by bisection. A single run has no h, and ends as early as it can.

Source: such systems are timed event graphs (Baccelli, Cohen, Olsder and Quadrat, Synchronization and
Linearity, 1992); what they are used for here is this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ....models.arrays import Integers
from ....models.graph import Accounting
from ....models.machine import Machine
from ....models.plan import Copy, Free, Plan, Run
from ....models.problems.placement import Placement
from ...engines.arrays import Records
from .latencies_kernel import ARC, EVENT, FILL, FREE, NODE, READ, THERE, WRITE, order_bytes, settle

SWEEPS = 400
"""After which a period counts as too short: a few suffice for others."""
FINE = 2**17
"""Parts of a period, by one of which the one that is found may be too long."""
LONGEST = 8
"""Times the period of the plan that is timed, up to which one is looked for."""
NEVER = -(2**60)
"""Nanoseconds before any event: no path leads to it yet."""


def without_latencies(problem: Placement) -> tuple[Placement, Callable[[Plan], Plan | None]]:
    """Return the problem on channels without latency, and what makes of its plans those of the problem.

    The problem itself, and what returns its plans, if channels have none or plans have other orders.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:chain?n=5&seed=1")
    >>> problem = lt.Placement(graph, lt.load_machine("h200-node"), periodic=True)
    >>> prompt, restored = without_latencies(problem)
    >>> sorted({channel.latency_ns for channel in prompt.machine.channels})
    [0]
    """
    machine = problem.machine
    if not any(c.latency_ns for c in machine.channels) or not is_ordered(problem):
        return problem, lambda plan: plan
    channels = tuple(replace(c, latency_ns=0) for c in machine.channels)
    return replace(problem, machine=replace(machine, channels=channels)), lambda plan: timed(problem, plan)


def is_ordered(problem: Placement) -> bool:
    """Return whether orders say all: one processor, which uses one tier, and what it reads stays there."""
    processors = problem.machine.processors
    coexist = problem.graph.accounting is Accounting.COEXIST
    return len(processors) == 1 and len(processors[0].tiers) == 1 and coexist


def timed(problem: Placement, plan: Plan) -> Plan | None:
    """Return a plan on the problem's machine with the orders of a valid one, each action as early as it can.

    Parameters
    ----------
    problem
        `is_ordered`.
    plan
        For its graph; its machine may have other latencies.

    Returns
    -------
    Plan or None
        None if no period up to `LONGEST` of its own is found.
    """
    plan = replace(plan, runs=tuple(sorted(plan.runs, key=lambda r: (r.start, r.end, r.op))))
    node = _nodes(problem.machine, plan)
    solution = _least_times(node, _arcs(problem, plan, node), plan.period)
    if solution is None:
        return None
    period, times = solution
    begins = (times[: len(node)] - node["ahead"]).tolist()
    ends = (times[: len(node)] + node["behind"]).tolist()
    copy, free = 1 + len(plan.runs), 1 + len(plan.runs) + len(plan.copies)

    runs = zip(plan.runs, begins[1:copy], ends[1:copy], strict=True)
    copies = zip(plan.copies, begins[copy:free], ends[copy:free], strict=True)
    frees = zip(plan.frees, begins[free:], strict=True)
    return replace(
        plan,
        machine=problem.machine,
        period=period,
        runs=tuple(Run(r.op, r.mode, begin, end, r.processor) for r, begin, end in runs),
        copies=tuple(Copy(c.tensor, c.src, c.dst, begin, end, c.bytes) for c, begin, end in copies),
        frees=tuple(Free(f.tensor, f.tier, time, f.bytes) for f, time in frees),
    )


def _nodes(machine: Machine, plan: Plan) -> Records:
    """Return the boundary, the runs, the copies and the frees."""
    after, before = ({(c.src, c.dst): c.latency_ns for c in m.channels} for m in (machine, plan.machine))
    rows = [(0, 0, 0, 0), *((r.start, r.end, 0, r.end - r.start) for r in plan.runs)]
    for c in plan.copies:
        way = c.src, c.dst
        rows.append((c.start, c.end, after[way], c.end - c.start - before[way]))
    return np.array([*rows, *((f.time, f.time, 0, 0) for f in plan.frees)], NODE)


def _arcs(problem: Placement, plan: Plan, node: Records) -> tuple[Records, Integers]:
    """Return all constraints, and by node when it was; joint nodes stand behind those of actions."""
    period, machine = plan.period or 0, problem.machine
    every = np.arange(1, len(node))
    runs, copies, frees = np.split(every, [len(plan.runs), len(plan.runs) + len(plan.copies)])
    arcs = [_rows(0, every, node["ahead"][every]), _rows(runs[:-1], runs[1:], node["behind"][runs[:-1]])]
    if period:
        crosses = node["finish"][every] > period
        within, across = every[~crosses], every[crosses]
        arcs += [
            _rows(every, 0, crosses - node["ahead"][every], 1),
            _rows(within, 0, node["behind"][within], 1),
            _rows(0, across, 1 - node["behind"][across], -1),
        ]
    of_bytes, allocates = _orders_of_bytes(problem, plan, node)
    arcs.append(of_bytes)
    instants = node["begin"]

    def join(ends: Integers, begins: Integers, since: Integers, ahead: Integers) -> None:
        nonlocal instants
        finish = node["finish"][ends]
        laps = finish > period if period else np.zeros(len(ends), np.int64)
        finish = finish - laps * period
        by_finish = np.argsort(finish, kind="stable")
        ends, finish, laps = ends[by_finish], finish[by_finish], laps[by_finish]
        # A joint node for each number of ends that some begin waits for; the last one also for the next lap.
        waits_for = np.searchsorted(finish, since, "right")
        joint = np.unique(np.append(waits_for[waits_for > 0], len(ends)))
        number = len(instants) + np.arange(len(joint))
        into = number[np.searchsorted(joint, np.arange(len(ends)), "right")]
        is_first = waits_for == 0
        source = number[np.searchsorted(joint, waits_for)]
        source[is_first] = number[-1]
        arcs.extend(
            (
                _rows(ends, into, node["behind"][ends], laps),
                _rows(number[:-1], number[1:], 0),
                _rows(number[-1:], number[:1], 0, 1),
                _rows(source, begins, ahead, is_first),
            )
        )
        instants = np.concatenate((instants, finish[joint - 1]))

    ways = [(c.src, c.dst) for c in plan.copies]
    links = [{(c.src, c.dst)} for c in machine.channels] + [set(g.channels) for g in machine.groups]
    for link in links:
        mine = copies[[way in link for way in ways]]
        if len(mine):
            join(mine, mine, node["finish"][mine] - node["behind"][mine], np.zeros(len(mine), np.int64))
    total = sum(t.nbytes for t in problem.graph.tensors)
    total += max(mode.workspace for op in problem.graph.ops for mode in op.all_modes)
    home = machine.processors[0].tiers[0].tier
    works = runs[[bool(problem.graph.ops[r.op].all_modes[r.mode].workspace) for r in plan.runs]]
    for number, tier in enumerate(machine.tiers):
        if tier.capacity is None or tier.capacity >= total:
            continue
        own = works if tier.name == home else works[:0]
        begins = np.union1d(np.flatnonzero(allocates[:, number]), own)
        ends = np.concatenate((frees[[f.tier == tier.name for f in plan.frees]], own))
        if len(begins) and len(ends):
            join(ends, begins, node["begin"][begins], node["ahead"][begins])
    joined = np.concatenate(arcs)
    if not period:
        joined = joined[joined["laps"] == 0]
    return joined[np.argsort(joined["target"], kind="stable")], instants


def _rows(source: Any, target: Any, wait: Any, laps: Any = 0) -> Records:
    """Return arcs from numbers, or arrays of them."""
    columns = np.broadcast_arrays(source, target, wait, laps)
    rows = np.zeros(columns[0].shape, ARC)
    for name, column in zip(("source", "target", "wait", "laps"), columns, strict=True):
        rows[name] = column
    return rows


def _orders_of_bytes(problem: Placement, plan: Plan, node: Records) -> tuple[Records, Integers]:
    """Return the arcs between actions on the same bytes, and by node and tier whether it allocates some."""
    graph, machine = problem.graph, problem.machine
    tier = {t.name: k for k, t in enumerate(machine.tiers)}
    base = np.cumsum([0, *(max(t.nbytes, 1) for t in graph.tensors)]).tolist()  # tensors of none have orders
    rows: list[tuple[int, int, int, int, int, int]] = []

    def note(k: int, t: int, part: tuple[int, int] | None, where: str, kind: int) -> None:
        x = graph.tensors[t]
        low, high = part if part and x.nbytes else (0, max(x.nbytes, 1))
        rows.append((base[t] + low, base[t] + high, k, tier[where], kind, x.initial and x.final))

    for x in plan.start:
        note(0, x.tensor, x.bytes, x.tier, int(THERE))
    home = machine.processors[0].tiers[0].tier
    for k, run in enumerate(plan.runs, 1):
        op = graph.ops[run.op]
        for t in {*op.reads, *op.writes}:
            note(k, t, None, home, int(WRITE if t in op.writes else READ))
    for k, c in enumerate(plan.copies, 1 + len(plan.runs)):
        note(k, c.tensor, c.bytes, c.src, int(READ))
        note(k, c.tensor, c.bytes, c.dst, int(FILL))
    for k, f in enumerate(plan.frees, 1 + len(plan.runs) + len(plan.copies)):
        note(k, f.tensor, f.bytes, f.tier, int(FREE))
    table = np.array(rows, np.int64).reshape(len(rows), 6)
    cuts = np.unique(table[:, :2])
    low, high = np.searchsorted(cuts, table[:, :2]).T
    copies = np.repeat(np.arange(len(rows)), high - low)
    event = np.zeros(len(copies), EVENT)
    passed = np.cumsum(high - low) - (high - low)
    event["segment"] = np.arange(len(copies)) - passed[copies] + low[copies]
    for column, name in enumerate(("node", "tier", "kind", "cyclic"), 2):
        event[name] = table[copies, column]
    copied = node[event["node"]]
    ends_at_once = copied["finish"] == copied["begin"]
    rank = np.where(event["kind"] == FREE, 2, np.where(event["kind"] == THERE, 0, 3 - 2 * ends_at_once))
    event = event[np.lexsort((event["node"], copied["finish"], rank, copied["begin"], event["segment"]))]
    allocates = np.zeros((len(node), len(tier)), np.int64)
    arc = np.zeros(4 * len(event) + 16, ARC)
    while (count := order_bytes(node, event, len(tier), plan.period or 0, arc, allocates)) > len(arc):
        arc = np.zeros(count, ARC)
    return arc[:count], allocates


def _least_times(
    node: Records, arcs: tuple[Records, Integers], period: int | None
) -> tuple[int | None, Integers] | None:
    """Return the least period found, and times for it; None if there is none."""
    arc, instants = arcs
    count = len(instants)
    first = np.searchsorted(arc["target"], np.arange(count + 1))
    rank = np.ones(count, np.int64)  # at an instant: releases, who joins them, who allocates
    rank[: len(node)] = np.where(node["finish"] == node["begin"], 0, 2)
    order = np.lexsort((rank, instants))

    def times(length: int) -> Integers | None:
        earliest = np.where(np.arange(count) == 0, 0, NEVER)
        return earliest if settle(order, first, arc, length, SWEEPS, earliest) else None

    if period is None:
        earliest = times(0)
        return None if earliest is None else (None, earliest)
    low, high = 0, period
    while (best := times(high)) is None:
        low, high = high, high + max(1, high // 8)
        if high > LONGEST * period:
            return None
    while high - low > max(1, high // FINE):
        middle = (low + high) // 2
        earliest = times(middle)
        if earliest is None:
            low = middle
        else:
            high, best = middle, earliest
    return high, best

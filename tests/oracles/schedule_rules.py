"""What is wrong with runs and transfers on memories, straight from the definitions, a nanosecond at a time.

For plans of `makespan`, `distributed` and `streams` whose ops take at least 1 ns. Nothing here is shared with
the package but the raw fields of graph, machine and plan; residents and frees of a plan are not looked at,
as the definitions say what is where.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from lowtide.models.graph import Accounting, Graph
from lowtide.models.machine import Machine
from lowtide.models.plan import Copy, Plan, Run
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_rates import fits


def end_of(plan: Plan) -> int:
    """Return the end of the last run or transfer, in ns."""
    return max([0, *(run.end for run in plan.runs), *(copy.end for copy in plan.copies)])


def faults(graph: Graph, plan: Plan, *, in_turn: bool = True) -> set[str]:
    """Return the words of the rules that a plan breaks; `in_turn`: shared channels carry one at a time."""
    machine = plan.machine
    if sorted(run.op for run in plan.runs) != list(range(len(graph.ops))):
        return {"runs"}
    runs = sorted(plan.runs, key=lambda run: run.op)
    return {
        *_of_runs(graph, machine, runs),
        *_of_copies(graph, machine, plan.copies, in_turn=in_turn),
        *_of_versions(graph, machine, runs, plan.copies),
        *_of_memories(graph, machine, runs, plan.copies),
    }


def _homes(machine: Machine) -> dict[str, str]:
    return {p.name: p.tiers[0].tier for p in machine.processors}


def _of_runs(graph: Graph, machine: Machine, runs: list[Run]) -> Iterator[str]:
    kinds, contention = {p.name: p.kind for p in machine.processors}, machine.contention
    home = _homes(machine)
    for run in runs:
        modes = graph.ops[run.op].all_modes
        if run.start < 0 or run.processor not in kinds or not 0 <= run.mode < len(modes):
            yield "range"
            continue
        mode = modes[run.mode]
        if mode.processors and kinds[run.processor] not in mode.processors:
            yield "kind"
        stretched = contention is not None and contention.model == "proportional"
        if run.end - run.start < mode.duration_ns:
            yield "duration"
        if run.end - run.start > mode.duration_ns and not stretched:
            yield "duration"
    for a, b in combinations(runs, 2):
        if a.processor == b.processor and a.start < b.end and b.start < a.end:
            yield "overlap"
    lag = contention.sync_ns if contention is not None else 0
    for i, j in must_precede(graph):
        if runs[j].start < runs[i].end + (lag if runs[i].processor != runs[j].processor else 0):
            yield "precedence"
    if contention is not None and contention.model == "proportional":
        for tier in set(home.values()):
            here = [run for run in runs if home.get(run.processor) == tier]
            share = [min(graph.ops[run.op].share or contention.parts, contention.parts) for run in here]
            work = [u * graph.ops[run.op].duration_ns for u, run in zip(share, here, strict=True)]
            if any(run.end <= run.start for run in here):
                yield "duration"
            elif here and not fits([(run.start, run.end) for run in here], share, work, contention.parts):
                yield "contention"


def _of_copies(graph: Graph, machine: Machine, copies: tuple[Copy, ...], *, in_turn: bool) -> Iterator[str]:
    channels = {(c.src, c.dst): c for c in machine.channels}
    busy: list[tuple[str, int, int]] = []
    for copy in copies:
        pair = copy.src, copy.dst
        if pair not in channels or copy.start < 0:
            yield "channel"
            continue
        channel = channels[pair]
        groups = [g for g in machine.groups if pair in g.channels]
        rate = min([channel.bytes_per_s, *(g.bytes_per_s for g in groups)])
        least = channel.latency_ns - (-graph.tensors[copy.tensor].nbytes * 10**9 // rate)
        if copy.end - copy.start < least:
            yield "rate"
        lanes = [g.name for g in groups] or [f"{copy.src} to {copy.dst}"] * channel.shared
        busy += [(lane, copy.start + channel.latency_ns, copy.end) for lane in lanes]
    for (lane, a, b), (other, c, d) in combinations(busy, 2):
        if in_turn and lane == other and max(a, c) < min(b, d):
            yield "turns"


def _of_versions(graph: Graph, machine: Machine, runs: list[Run], copies: tuple[Copy, ...]) -> Iterator[str]:
    """Yield what is read, sent or kept where another version than that of the reference order is."""
    home = _homes(machine)
    version: dict[int, int] = {}  # by tensor: the op that wrote it last in the reference order
    needs: list[dict[int, int]] = []
    for i, op in enumerate(graph.ops):
        needs.append({t: version.get(t, -1) for t in op.reads})
        version |= dict.fromkeys(op.writes, i)
    for t, tensor in enumerate(graph.tensors):
        ops = [i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        writers = [i for i in ops if t in graph.ops[i].writes]
        if tensor.initial:
            first = [i for i in ops if not writers or i <= writers[0]]
            there = {home[runs[i].processor] for i in first}
        else:
            there = set()
        sent = [copy for copy in copies if copy.tensor == t]
        comes = [Coming(home[runs[i].processor], runs[i].start, runs[i].end, i, None) for i in writers]
        comes += [Coming(copy.dst, copy.start, copy.end, None, copy) for copy in sent]
        for a, b in combinations(comes, 2):
            if a.place == b.place and max(a.start, b.start) < min(a.end, b.end):
                yield "versions"
        for copy in sent:
            made = _held(comes, there, copy.src, copy.start, copy.end, copy)
            since = runs[made].end if made is not None and made >= 0 else 0
            if made is None or any(since <= runs[j].start < copy.end for j in writers if j != made):
                yield "source"  # nothing, or what another op overwrites, wherever that runs
        for i in ops:
            if t in needs[i]:
                run = runs[i]
                until = run.end if graph.accounting is Accounting.COEXIST else run.start
                if _held(comes, there, home[run.processor], run.start, until, i) != needs[i][t]:
                    yield "read"
        if tensor.final:
            last = version.get(t, -1)
            places = {home[runs[last].processor]} if last >= 0 else there
            after = end_of_all(runs, copies)
            if any(_held(comes, there, place, after, after + 1, None) != last for place in places):
                yield "final"


class Coming(NamedTuple):
    """What an op writes, or a copy brings, to a memory over a time."""

    place: str
    start: int
    end: int
    op: int | None
    copy: Copy | None


def _held(
    comes: list[Coming], there: set[str], place: str, begin: int, end: int, who: int | Copy | None
) -> int | None:
    """Return the op whose version a memory has over a time, -1: the initial one; None: none, or it changes.

    `who` looks at it, and does not disturb itself.
    """
    found, when = (-1 if place in there else None), -1
    at_once = []
    for x in comes:
        if x.place != place or (who is not None and (x.op == who or x.copy is who)):
            continue
        if x.end <= begin and x.end >= when:
            found, when = _brought(comes, there, x), x.end
        elif begin < x.start == x.end < end:
            at_once.append(x)
        elif begin < x.end and (x.start < end or x.start < begin):
            return None
    return found if all(_brought(comes, there, x) == found for x in at_once) else None


def _brought(comes: list[Coming], there: set[str], x: Coming) -> int | None:
    """Return the op whose version comes to a memory."""
    if x.copy is None:
        return x.op
    return _held([y for y in comes if y is not x], there, x.copy.src, x.start, x.end, x.copy)


def end_of_all(runs: list[Run], copies: tuple[Copy, ...]) -> int:
    return max([0, *(run.end for run in runs), *(copy.end for copy in copies)])


def _of_memories(graph: Graph, machine: Machine, runs: list[Run], copies: tuple[Copy, ...]) -> Iterator[str]:
    """Yield ``memory`` if one ever holds more than its capacity, also before anything begins."""
    home, last_tier = _homes(machine), machine.tiers[-1].name
    spans: dict[str, list[tuple[int, int, int]]] = {tier.name: [] for tier in machine.tiers}
    end = end_of_all(runs, copies) + 1
    for run in runs:
        mode = graph.ops[run.op].all_modes[run.mode]
        spans[home[run.processor]].append((run.start, run.end, mode.workspace))
    for t, tensor in enumerate(graph.tensors):
        using = [run for run in runs if t in graph.ops[run.op].reads or t in graph.ops[run.op].writes]
        writers = [run for run in using if t in graph.ops[run.op].writes]
        first = [run for run in using if not writers or run.op <= writers[0].op]
        begins: dict[str, int] = {}
        if tensor.initial:
            begins = dict.fromkeys((home[run.processor] for run in first), -1)
            if not begins and tensor.final:
                begins = {last_tier: -1}
        stays = {home[writers[-1].processor]} if writers else set(begins)
        for run in writers:
            place = home[run.processor]
            begins[place] = min(begins.get(place, run.start), run.start)
        until: dict[str, int] = {}
        for run in using:
            keeps = graph.accounting is Accounting.COEXIST or run in writers
            place = home[run.processor]
            until[place] = max(until.get(place, 0), run.end if keeps else run.start)
        for copy in copies:
            if copy.tensor == t:
                begins[copy.dst] = min(begins.get(copy.dst, copy.start), copy.start)
                for place in (copy.src, copy.dst):
                    until[place] = max(until.get(place, 0), copy.end)
        for place, begin in begins.items():
            stop = end if tensor.final and place in stays else until.get(place, 0)
            spans[place].append((begin, stop, tensor.nbytes))
    for tier in machine.tiers:
        here = spans[tier.name]
        if tier.capacity is not None:
            most = max(sum(size for a, b, size in here if a <= now < b) for now in range(-1, end))
            if most > tier.capacity:
                yield "memory"

"""Exhaustive search for the fastest schedule on distributed memory, straight from the definitions.

Every assignment of the ops to modes and processors, and for each every way to start runs and transfers, a
nanosecond at a time (all times are integers, so some fastest schedule starts everything at one). Nothing here
is shared with the package but the raw fields of graph and machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import NamedTuple

from lowtide.models.graph import Accounting, Graph, Mode
from lowtide.models.machine import Machine, Processor
from tests.oracles.brute_force import must_precede

WAITS = -1
"""In a state: has not begun; else the nanoseconds that are left."""

State = tuple[int, ...]
Way = tuple[Mode, Processor]


class Send(NamedTuple):
    """What op `writer` makes of `tensor` goes from `src` to `dst`."""

    writer: int
    tensor: int
    src: str
    dst: str


class Task(NamedTuple):
    """A run or a transfer: its nanoseconds, in the last of them it uses `lanes`; what comes before it."""

    time: int
    busy: int
    lanes: frozenset[str]
    before: frozenset[int]


def fastest_distributed(graph: Graph, machine: Machine) -> int | None:
    """Return the least makespan in ns, None if no schedule keeps within the memories."""
    ways = [
        [
            (mode, p)
            for mode in op.all_modes
            for p in machine.processors
            if not mode.processors or p.kind in mode.processors
        ]
        for op in graph.ops
    ]
    best: int | None = None
    for chosen in product(*ways):
        home = [p.tiers[0].tier for _, p in chosen]
        found = _fastest(graph, machine, list(chosen), home, best)
        best = found if best is None or (found is not None and found < best) else best
    return best


def _sends(graph: Graph, home: list[str]) -> tuple[list[Send], list[tuple[Send, int]]]:
    """Return the transfers that an assignment needs, and the ops that wait for each."""
    writer: dict[int, int] = {}
    sends: list[Send] = []
    waits = []
    for j, op in enumerate(graph.ops):
        for t in op.reads:
            if t in writer and home[writer[t]] != home[j]:
                send = Send(writer[t], t, home[writer[t]], home[j])
                sends += [] if send in sends else [send]
                waits.append((send, j))
        for t in op.writes:
            writer[t] = j
    return sends, waits


def _fastest(
    graph: Graph, machine: Machine, chosen: list[Way], home: list[str], limit: int | None
) -> int | None:
    n = len(graph.ops)
    channels = {(c.src, c.dst): c for c in machine.channels}
    sends, waits = _sends(graph, home)
    if any((x.src, x.dst) not in channels for x in sends):
        return None
    tasks = []
    for j, (mode, p) in enumerate(chosen):
        before = {i for i, k in must_precede(graph) if k == j}
        before |= {n + sends.index(x) for x, k in waits if k == j}
        tasks.append(Task(mode.duration_ns, mode.duration_ns, frozenset({p.name}), frozenset(before)))
    for x in sends:
        c = channels[x.src, x.dst]
        groups = [g for g in machine.groups if (x.src, x.dst) in g.channels]
        rate = min([c.bytes_per_s, *(g.bytes_per_s for g in groups)])
        busy = -(-graph.tensors[x.tensor].nbytes * 10**9 // rate)
        lanes = frozenset(g.name for g in groups)
        if c.shared and not groups:
            lanes = frozenset({f"{x.src} to {x.dst}"})
        tasks.append(Task(c.latency_ns + busy, busy, lanes, frozenset({x.writer})))
    fits = _memory_check(graph, machine, chosen, home, sends)
    layer, now = {(WAITS,) * len(tasks)}, 0
    while layer and (limit is None or now < limit):
        following = set()
        for state in layer:
            for begun in _begin(tasks, state):
                if all(left == 0 for left in begun):
                    return now
                if any(left > 0 for left in begun) and _lanes_free(tasks, begun) and fits(begun, now):
                    following.add(tuple(left - (left > 0) for left in begun))
        layer, now = following, now + 1
    return None


def _begin(tasks: list[Task], state: State) -> Iterator[State]:
    """Yield the states after any set of tasks has begun; what takes no time is done at once."""
    state = tuple(
        0 if left == WAITS and not task.time and all(state[i] == 0 for i in task.before) else left
        for left, task in zip(state, tasks, strict=True)
    )
    ready = [
        k
        for k, task in enumerate(tasks)
        if state[k] == WAITS and task.time and all(state[i] == 0 for i in task.before)
    ]
    for count in range(len(ready) + 1):
        for some in combinations(ready, count):
            yield tuple(tasks[k].time if k in some else left for k, left in enumerate(state))


def _lanes_free(tasks: list[Task], state: State) -> bool:
    """Return whether no lane and no processor does two things in the nanosecond to come."""
    used = [
        lane for left, task in zip(state, tasks, strict=True) if 0 < left <= task.busy for lane in task.lanes
    ]
    return len(used) == len(set(used))


def _memory_check(
    graph: Graph, machine: Machine, chosen: list[Way], home: list[str], sends: list[Send]
) -> Callable[[State, int], bool]:
    """Return a function that says whether the memories hold what is there in a state."""
    n, coexist = len(graph.ops), graph.accounting is Accounting.COEXIST
    writers = [[i for i, op in enumerate(graph.ops) if t in op.writes] for t in range(len(graph.tensors))]
    access = [
        [i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        for t in range(len(graph.tensors))
    ]
    begins: list[set[str]] = []  # of each tensor, where its first version is accessed
    stays: list[set[str]] = []  # and where it is at the end
    for t, tensor in enumerate(graph.tensors):
        first = [i for i in access[t] if not writers[t] or i <= writers[t][0]]
        places = {home[i] for i in first} if tensor.initial else set()
        if tensor.initial and tensor.final and not access[t]:
            places = {machine.tiers[-1].name}
        begins.append(places)
        stays.append(({home[writers[t][-1]]} if writers[t] else places) if tensor.final else set())

    def is_there(t: int, tier: str, state: State) -> bool:
        here = [i for i in access[t] if home[i] == tier]
        to = [k for k, x in enumerate(sends, n) if x.tensor == t and x.dst == tier]
        out = [k for k, x in enumerate(sends, n) if x.tensor == t and x.src == tier]
        begun = tier in begins[t] or any(state[i] != WAITS for i in here if t in graph.ops[i].writes)
        if not begun and all(state[k] == WAITS for k in to):
            return False
        if tier in stays[t] or any(state[k] != 0 for k in [*out, *to]):
            return True
        return any(state[i] != 0 if coexist or t in graph.ops[i].writes else state[i] == WAITS for i in here)

    def fits(state: State, now: int) -> bool:
        for tier in machine.tiers:
            if tier.capacity is None:
                continue
            used = sum(x.nbytes for t, x in enumerate(graph.tensors) if is_there(t, tier.name, state))
            used += sum(
                mode.workspace for i, (mode, _) in enumerate(chosen) if home[i] == tier.name and state[i] > 0
            )
            first = sum(
                x.nbytes for x, places in zip(graph.tensors, begins, strict=True) if tier.name in places
            )
            if used > tier.capacity or (now == 0 and first > tier.capacity):
                return False
        return True

    return fits

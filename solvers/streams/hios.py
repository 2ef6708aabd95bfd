r"""HIOS: ops to devices by longest paths, or by recorded mappings, then side by side on each device.

Kundu and Shu, "HIOS: Hierarchical Inter-Operator Scheduler for Real-Time Inference of DAG-Structured Deep
Learning Models on Multiple GPUs" (2023); what follows is stated from a reading of its public code. On one
device ops run first one after another. With :math:`w_i` ns of op i and :math:`c_{ij}` of the transfer to a
direct successor on another device:

``hios-lp``
    While ops are without a device: the longest path of such ops, transfers included, those of the edges with
    which it begins and ends at ops that have one, too, goes as a whole to the device with which a list
    schedule of all ops that have one, by falling upward rank (the longest way to the end, transfers
    included), ends first.
``hios-mr``
    In the order of the latest starts, which is that of falling upward ranks, for each device the mapping so
    far that ends with the op on it: of the recorded mappings of the op before, that with which this op ends
    first there. In the end the mapping that ends first; all then run in the order of a list schedule.
merging
    On each device, two neighbouring groups of independent ops become one, whose ops run side by side, if they
    are at most ``window`` ops (and streams) together and the makespan falls. The ops of a device's next group
    wait for all of the one before.

Deviations. The makespan is that of the problem's own contention, not of half-serial stages; an op of a group
starts as soon as it can, without a barrier at the group's beginning. Mappings are evaluated by list
scheduling: the published simulator takes ops in the order of their ids and an op's start from the clock of
its predecessors' device, and so ranks mappings by wrong times. Of two neighbouring groups that cannot merge
the second is the next one looked at. Ties go to the smallest index.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import pairwise

from ...formulations.model import BuildTimeout, Tick, ticker
from ...models.derived.precedence import precedence
from ...models.lowering.devices import Devices
from ...models.plan import Plan
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import devices_of

Arcs = list[list[tuple[int, int]]]
"""Of each op its direct successors, or predecessors, with the ns of what goes between two devices."""

Groups = list[list[list[int]]]
"""Of each device its groups one after another."""


class Mapper:
    """Both rules, and merging, with what they know of a problem; `tick` may raise `BuildTimeout`."""

    def __init__(self, problem: Streams, cluster: Devices, tick: Tick) -> None:
        self.problem, self.cluster, self.tick = problem, cluster, tick
        self.ns, self.devices = problem.durations, range(cluster.count)
        order, after = precedence(problem.graph), cluster.transfers
        some = enumerate(order.successors)
        self.successors: Arcs = [[(j, after.get((i, j), 0)) for j in later] for i, later in some]
        some = enumerate(order.predecessors)
        self.predecessors: Arcs = [[(i, after.get((i, j), 0)) for i in earlier] for j, earlier in some]
        self.rank = list(self.ns)
        for i in reversed(range(len(self.ns))):
            self.rank[i] += max((c + self.rank[j] for j, c in self.successors[i]), default=0)

    def listed(self, on: dict[int, int]) -> tuple[int, list[list[int]]]:
        """Return makespan and orders of a list schedule of the ops that have a device, on one stream each."""
        self.tick()
        waits = {i: sum(j in on for j, _ in self.predecessors[i]) for i in on}
        ready = [(-self.rank[i], i) for i, count in waits.items() if not count]
        heapify(ready)
        free, end = [0 for _ in self.devices], dict.fromkeys(on, 0)
        orders: list[list[int]] = [[] for _ in self.devices]
        while ready:
            _, i = heappop(ready)
            d = on[i]
            free[d] = end[i] = self.ns[i] + max(free[d], self.arrival(i, d, on, end))
            orders[d].append(i)
            for j, _ in self.successors[i]:
                if j in on:
                    waits[j] -= 1
                    if not waits[j]:
                        heappush(ready, (-self.rank[j], j))
        return max(free), orders

    def arrival(self, i: int, d: int, on: dict[int, int], end: dict[int, int]) -> int:
        """Return when all that op i needs of ops that have a device is on device d."""
        return max((end[j] + (c if on[j] != d else 0) for j, c in self.predecessors[i] if j in on), default=0)

    def by_longest_paths(self) -> dict[int, int]:
        """Return the device of each op by HIOS-LP."""
        on: dict[int, int] = {}
        while len(on) < len(self.ns):
            path = longest_path(self.ns, self.successors, self.predecessors, on)
            _, best = min((self.listed(on | dict.fromkeys(path, d))[0], d) for d in self.devices)
            on |= dict.fromkeys(path, best)
        return on

    def by_recorded_mappings(self) -> dict[int, int]:
        """Return the device of each op by HIOS-MR."""
        records: list[tuple[int, dict[int, int], dict[int, int], list[int]]] = []
        for i in sorted(range(len(self.ns)), key=lambda i: (-self.rank[i], i)):
            self.tick()
            plans = []
            for d in self.devices:
                ends = [
                    (self.ns[i] + max(free[d], self.arrival(i, d, on, end)), k)
                    for k, (_, on, end, free) in enumerate(records)
                ]
                finish, k = min(ends, default=(self.ns[i], -1))
                _, on, end, free = records[k] if records else (0, {}, {}, [0 for _ in self.devices])
                then = [finish if e == d else x for e, x in enumerate(free)]
                plans.append((max(then), on | {i: d}, end | {i: finish}, then))
            records = plans
        return min(records, key=lambda record: record[0])[1] if records else {}

    def plan(self, on: dict[int, int], window: int) -> Plan:
        """Return the plan of a mapping in a list schedule, with neighbours merged where that is faster."""
        most = min(window, self.problem.streams or window)
        after = precedence(self.problem.graph).descendants if most > 1 else ()
        groups = [[[i] for i in order] for order in self.listed(on)[1]]
        best = plan_of(self.cluster, groups)
        for some in groups:
            k = 0
            while k + 1 < len(some):
                self.tick()
                one, two = some[k], some[k + 1]
                k += 1
                if len(one) + len(two) > most or any(after[i] >> j & 1 for i in one for j in two):
                    continue
                some[k - 1 : k + 1] = [[*one, *two]]
                plan = plan_of(self.cluster, groups)
                if self.problem.evaluate(plan) < self.problem.evaluate(best):
                    best, k = plan, k - 1
                else:
                    some[k - 1 : k] = [one, two]
        return best


def longest_path(ns: tuple[int, ...], successors: Arcs, predecessors: Arcs, on: dict[int, int]) -> list[int]:
    """Return the longest path of ops that are not in `on`, edges to and from those that are included.

    Examples
    --------
    >>> longest_path((5, 1, 9), [[(1, 2), (2, 2)], [], []], [[], [(0, 2)], [(0, 2)]], {})
    [0, 2]
    """
    length: dict[int, int] = {}
    following: dict[int, int | None] = {}
    for i in reversed(range(len(ns))):
        if i not in on:
            ways = [(c, 0, None) if j in on else (c + length[j], -j, j) for j, c in successors[i]]
            beyond, _, following[i] = max(ways, default=(0, 0, None), key=lambda way: way[:2])
            length[i] = ns[i] + beyond
    before = {i: max((c for j, c in predecessors[i] if j in on), default=0) for i in length}
    at: int | None = max(length, key=lambda i: (length[i] + before[i], -i))
    path = []
    while at is not None:
        path.append(at)
        at = following[at]
    return path


def solve_lp(problem: Streams, context: Context) -> Outcome:
    """Offer HIOS-LP's plan."""
    return _solve(problem, context, Mapper.by_longest_paths)


def solve_mr(problem: Streams, context: Context) -> Outcome:
    """Offer HIOS-MR's plan."""
    return _solve(problem, context, Mapper.by_recorded_mappings)


def _solve(problem: Streams, context: Context, rule: Callable[[Mapper], dict[int, int]]) -> Outcome:
    """Offer a rule's plan, if the verifier finds no fault: neither rule knows memories."""
    mapper = Mapper(problem, devices_of(problem), ticker(lambda: context.expired))
    raise_first_bound(problem, context)
    context.careful = True
    try:
        on = rule(mapper)
        for window in (1, context.options["window"]):
            context.offer(mapper.plan(on, window))
    except BuildTimeout:
        return Outcome(reason="time", detail="the time was up before ops were mapped, or groups merged")
    return Outcome(detail="" if context.answer is not None else context.refused)


def plan_of(cluster: Devices, groups: Groups) -> Plan:
    """Return the plan in which the ops of a group wait for those of the device's group before."""
    rows: list[list[list[int]]] = []
    waits = []
    for some in groups:
        rows.append([[] for _ in range(max(map(len, some), default=0))])
        for group in some:
            for stream, i in zip(rows[-1], group, strict=False):
                stream.append(i)
        waits += [(i, j) for one, two in pairwise(some) for i in one for j in two]
    return cluster.plan(rows, waits)

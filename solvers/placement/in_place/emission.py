"""The plan of paths of whole items: copies in the order of their stalls, all as early as that allows."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from ....formulations.placement.in_place.data import NEAR, InPlaceData, OperandRole
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .plan_kernel import PlanWorld

HELD = ((0,), (1,), (0, 1))
"""The tiers that hold a tensor, by the number of its state in the kernels."""


def emit(problem: Placement, data: InPlaceData, world: PlanWorld) -> Plan:
    """Return the plan of a world."""
    return _Timeline(problem, data, world).plan_of()


class _Timeline(PlanBuilder):
    def __init__(self, problem: Placement, data: InPlaceData, world: PlanWorld) -> None:
        super().__init__(problem.graph, problem.machine)
        self.problem, self.data, self.world = problem, data, world
        self.tiers = [tier.name for tier in problem.machine.tiers]
        self.links = {(c.src, c.dst): c for c in problem.machine.channels}
        self.outs: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by stall: item, op that wrote it
        self.ins: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by stall: item, op that uses it
        self.left: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by stall: item, tier
        self.begin, self.end = [0] * data.n, [0] * data.n
        for i in range(len(data.items)):
            self._item(i)

    def _item(self, i: int) -> None:
        """Note an item's copies and what it leaves, by stall."""
        data, world, n = self.data, self.world, self.data.n
        item = data.items[i]
        uses = [(data.operands[j].op, data.operands[j].role) for j in item.uses]
        at = dict(uses)
        born = bool(uses) and uses[0][1] is OperandRole.WRITE
        if item.initial:
            for tier in HELD[int(world.start[i])]:
                self.start(item.tensor, self.tiers[tier])
        k = uses[0][0] if born else 0
        held: set[int] = set(HELD[int(world.start[i])]) if item.initial else set()
        if not born and item.initial:
            held = self._stall(i, 0, held, self._found(i, 0, at), -1, uses)
        elif item.initial:  # content that nobody needs
            self.left[0] += [(i, tier) for tier in held]
            held = set()
        last = n - 1 if item.kept else uses[-1][0]
        written = -1
        while k <= last:
            role = at.get(k)
            if role in (OperandRole.WRITE, OperandRole.UPDATE):
                written = k
                made = 1 if int(world.during[i, k]) == 1 else 0
                self.left[k + 1] += [(i, tier) for tier in held if tier != made]
                held = {made}
            late = set(HELD[int(world.late[i, k])])
            self.left[k + 1] += [(i, tier) for tier in held - late]
            held = late
            following = int(world.next[i, k])
            if following < 0:
                later = [op for op, _ in uses if op > k]
                if not item.kept or later:
                    self.left[k + 1] += [(i, tier) for tier in held]
                if not later:
                    break
                k, held = later[0], set()
                continue
            held = self._stall(i, k + 1, held, following, written, uses)
            k += 1

    def _found(self, i: int, k: int, at: dict[int, OperandRole]) -> int:
        state = int(self.world.during[i, k])
        if at.get(k) is OperandRole.UPDATE:
            return 0 if state == 0 else 1
        return 2 if state == 3 else state

    def _stall(
        self, i: int, e: int, held: set[int], state: int, written: int, uses: list[tuple[int, OperandRole]]
    ) -> set[int]:
        """Note what an item does in a stall."""
        later = set(HELD[state])
        if 1 in later - held:
            self.outs[e].append((i, written))
            self.left[e] += [(i, -1)] * (0 not in later)  # leaves with the copy
        elif 0 in later - held:
            self.ins[e].append((i, min((op for op, _ in uses if op >= e), default=self.data.n)))
            self.left[e] += [(i, 1)] * (1 not in later)
        else:
            self.left[e] += [(i, tier) for tier in held - later]
        return later

    def _copied(self, i: int, src: int, dst: int, start: int) -> int:
        item = self.data.items[i]
        link = self.links[self.tiers[src], self.tiers[dst]]
        end = start + max(1, link.latency_ns - (-item.nbytes * SECOND // link.bytes_per_s))
        self.copy(item.tensor, self.tiers[src], self.tiers[dst], start, end)
        return end

    def plan_of(self) -> Plan:
        """Return the plan."""
        data, n = self.data, self.data.n
        now, out, into, through = 0, 0, 0, 0
        ready = [0] * (n + 1)
        for e in range(n + 1):
            free, gone = now, [i for i, tier in self.left[e] if tier < 0]
            for i, written in self.outs[e]:
                out = self._copied(i, 0, 1, max(out, self.end[written] if written >= 0 else 0))
                free = max(free, out)
                if i in gone:
                    self.free(data.items[i].tensor, self.tiers[0], max(now, out))
            for i, use in self.ins[e]:
                into = self._copied(i, 1, 0, max(into, free))
                ready[use] = max(ready[use], into)
                through = max(through, into)
                if (i, 1) in self.left[e]:
                    self.left[e].remove((i, 1))
                    self.free(data.items[i].tensor, self.tiers[1], into)
            for i, tier in self.left[e]:
                if tier >= 0:
                    self.free(data.items[i].tensor, self.tiers[tier], now)
            through = max(through, free)
            if e < n:
                self.begin[e] = max(free, ready[e])
                mode, time = self._mode(e)
                self.end[e] = now = self.begin[e] + time
                self.run(e, mode, self.begin[e], now, self.problem.machine.processors[0].name)
        period = max(now, through)
        return self.plan(period=period if self.problem.periodic else None)

    def _mode(self, k: int) -> tuple[int, int]:
        """Return the mode of an op that suits the ways of its operands, and its ns."""
        data, first = self.data, self.data.first[k]
        some = data.of(k)
        ways = [int(self.world.way[first + x]) for x in range(len(some))]
        slow = sum((x.slow for x, way in zip(some, ways, strict=True) if way != NEAR), Fraction(0))
        fit = [
            (ns, number)
            for m, (number, ns, _) in enumerate(data.modes[k])
            if all(way in x.ways[m] for x, way in zip(some, ways, strict=True))
        ]
        ns, number = min(fit)
        return number, ns - (-slow.numerator // slow.denominator)

"""The plan of a solution of AutoTM's model: op by op, nothing overlaps the border of a slot.

1. Reads before op k, one after another.
2. Op k starts its slot; beside it, one after another, the reads and writes that the model puts there. The
   slot ends with the last of them.
3. Writes behind op k, one after another; what was written, or has a copy, leaves the fast memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

from ....formulations.placement.autotm_data import AutotmData, Lifetime, ModeData, Role, copy_time, granule
from ....formulations.placement.autotm_milp import (
    DROP,
    MADE_FAST,
    MADE_SLOW,
    PINNED,
    READ,
    STAY_A,
    STAY_B,
    STAY_P,
    WRITE,
    AutotmModel,
    is_fixed,
)
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement

Value = Callable[[Any], float]


@dataclass(frozen=True)
class Path:
    """Where an item is at each point, and what it does there.

    Attributes
    ----------
    item
        Which one.
    fast, slow
        By point, whether it is in the fast, in the slow memory, during its op if there is one.
    reads, writes, drops, stale
        Points at which it is read, from which it is written, behind which it leaves the fast memory because
        there is a copy, at which an update makes the copy stale.
    """

    item: Lifetime
    fast: tuple[bool, ...]
    slow: tuple[bool, ...]
    reads: frozenset[int]
    writes: frozenset[int]
    drops: frozenset[int]
    stale: frozenset[int]


def decode(built: AutotmModel, value: Value) -> tuple[list[Path], list[ModeData]]:
    """Return the path of each item and the mode of each op."""
    paths = [_path(built, t, value) for t in range(len(built.data.items))]
    modes = []
    for k, some in enumerate(built.data.modes):
        chosen = [m for m in some if len(some) > 1 and value(built.model.mode[k, m.number]) > 0.5]
        modes.append((chosen or list(some))[0])
    return paths, modes


def _path(built: AutotmModel, t: int, value: Value) -> Path:
    """Follow the flow of an item."""
    item = built.data.items[t]

    def taken(kind: str, i: int) -> bool:
        return (t, kind, i) in built.edges and value(built.model.edge[t, kind, i]) > 0.5

    pinned = is_fixed(built.data, item) or taken(PINNED, 0)
    fast, slow = pinned or taken(MADE_FAST, 0), not pinned and not taken(MADE_FAST, 0)
    in_fast, in_slow = list[bool](), list[bool]()
    reads, writes, drops, stale = set[int](), set[int](), set[int](), set[int]()
    for i, point in enumerate(item.points):
        if taken(READ, i) and not fast:
            reads.add(i)
            fast = True
        if point.role is Role.UPDATED and fast and slow:
            stale.add(i)
            slow = False
        in_fast.append(fast)
        in_slow.append(slow)
        if pinned or not fast or i + 1 == len(item.points):
            continue
        if not taken(STAY_B if slow else STAY_A, i):
            (drops if slow else writes).add(i)
            assert taken(DROP if slow else WRITE, i)
            fast, slow = False, True
    where = tuple(in_fast), tuple(in_slow)
    return Path(item, *where, *(frozenset(some) for some in (reads, writes, drops, stale)))


def suggest(built: AutotmModel, paths: list[Path], modes: list[ModeData]) -> None:
    """Give the variables the values of a solution of a form with fewer points."""
    model, data = built.model, built.data
    model.edge.set_values(dict.fromkeys(model.edge, 0), skip_validation=True)
    for t, path in enumerate(paths):
        if not is_fixed(data, data.items[t]):
            for kind, i in _edges(data.items[t], path):
                model.edge[t, kind, i].set_value(1)
    for k, number in model.mode:
        model.mode[k, number].set_value(int(number == modes[k].number))
    unit, change = granule(data), [0] * (data.n + 1)
    for path in paths:
        for begin, end, i, behind in path.item.spans(data.n):
            if path.fast[i] and not (behind and i in path.writes | path.drops):
                change[begin] += -(-path.item.nbytes // unit)
                change[end] -= -(-path.item.nbytes // unit)
    if data.memory is not None:
        model.held.set_values(dict(enumerate(accumulate(change[:-1]))), skip_validation=True)
    for k in model.slot:
        users = [path for path in paths if k in path.item.users]
        longer = [data.slow_time(p.item.nbytes) for p in users if not p.fast[p.item.point(k)]]
        model.slot[k].set_value(float(modes[k].duration + sum(longer)))


def _edges(item: Lifetime, path: Path) -> Iterator[tuple[str, int]]:
    """Yield the edges that an item takes on a path which is given at some of its points only."""
    known = {point.op: j for j, point in enumerate(path.item.points)}
    fast, slow = path.fast[0], path.slow[0]
    if item.initial and fast:
        yield PINNED, 0
        return
    yield MADE_FAST if fast else MADE_SLOW, 0
    for i, point in enumerate(item.points):
        j = known.get(point.op, -1)
        if j in path.reads:
            yield READ, i
            fast = True
        if point.role is Role.UPDATED and fast:
            slow = False
        if i + 1 == len(item.points):
            return
        if not fast:
            yield STAY_P, i
        elif j in path.writes | path.drops:
            yield DROP if slow else WRITE, i
            fast, slow = False, True
        else:
            yield STAY_B if slow else STAY_A, i


class Emission(PlanBuilder):
    """The actions so far, and the time."""

    def __init__(self, problem: Placement, data: AutotmData) -> None:
        super().__init__(problem.graph, problem.machine)
        self.data = data
        self.fast, self.slow = (tier.name for tier in problem.machine.tiers)
        self.now = 0

    def read(self, item: Lifetime, beside: bool) -> None:
        """Copy an item into the fast memory."""
        time = copy_time(item.nbytes, self.data.into_beside if beside else self.data.into)
        self.copy(item.tensor, self.slow, self.fast, self.now, self.now + time)
        self.now += time

    def write(self, item: Lifetime, beside: bool) -> None:
        """Copy an item into the slow memory, and let it leave the fast one."""
        time = copy_time(item.nbytes, self.data.out_beside if beside else self.data.out)
        self.copy(item.tensor, self.fast, self.slow, self.now, self.now + time)
        self.now += time
        self.free(item.tensor, self.fast, self.now)


def emit(problem: Placement, data: AutotmData, paths: list[Path], modes: list[ModeData]) -> Plan:
    """Return the plan of a solution."""
    out = Emission(problem, data)
    for path in paths:
        if path.item.initial:
            out.start(path.item.tensor, out.fast if path.fast[0] else out.slow)
    users: list[list[tuple[Path, int]]] = [[] for _ in range(data.n)]
    passed: list[list[tuple[Path, int]]] = [[] for _ in range(data.n)]
    dying: list[list[Path]] = [[] for _ in range(data.n + 1)]
    for path in paths:
        dying[path.item.last].append(path)
        for k in path.item.users:
            users[k].append((path, path.item.point(k)))
        for i, point in enumerate(path.item.points):
            if point.role is Role.PASSED:
                passed[point.op].append((path, i))
    for k in range(data.n):
        here = [(path, i) for path, i in users[k] if path.item.points[i].op == k]
        for path, i in here:
            if i in path.reads:
                out.read(path.item, beside=False)
        for path, i in here:
            if i in path.stale:
                out.free(path.item.tensor, out.slow, out.now)
        start, end = out.now, out.now + _length(data, modes[k], users[k])
        out.run(k, modes[k].number, start, end, problem.machine.processors[0].name)
        for path, i in passed[k]:
            if i in path.reads:
                out.read(path.item, beside=True)
            elif i in path.writes:
                out.write(path.item, beside=True)
        out.now = max(out.now, end)
        for path, i in (*here, *passed[k]):
            if i in path.drops:
                out.free(path.item.tensor, out.fast, out.now)
        for path in dying[k]:
            for tier, there in ((out.fast, path.fast[-1]), (out.slow, path.slow[-1])):
                if there:
                    out.free(path.item.tensor, tier, out.now)
        for path, i in here:
            if i in path.writes:
                out.write(path.item, beside=False)
    if problem.periodic:
        for path in paths:
            if path.item.returns and path.slow[-1] and path.fast[-1]:
                out.free(path.item.tensor, out.fast, out.now)
    return out.plan(period=out.now if problem.periodic else None)


def _length(data: AutotmData, mode: ModeData, users: list[tuple[Path, int]]) -> int:
    """Return the ns of a run: those of its mode, and what operands in the slow memory add, rounded up."""
    longer = sum((data.slow_time(path.item.nbytes) for path, i in users if not path.fast[i]), Fraction(0))
    return mode.duration + -(-longer.numerator // longer.denominator)

r"""What AutoTM's model of tensor placement is about: items with points of decision, ops with modes.

An *item* is a content in fixed bytes: a tensor from the op that overwrites it (or from time 0) until nobody
needs it any more, through all updates in place. Its *points* are where the model decides: time 0 or the op
that makes it, the ops that use or update it, the end of the iteration if it is kept (nGraph's parameters
and results are nodes as well), in the asynchronous form also ops nearby that leave it alone. What it can do
at a point are *steps*, see `steps`.

An item that is there at time 0 may be *pinned*: in the first tier alone until its last point. Else it begins
in another tier. What must return ends with a copy where it began. So an item has one or several *walks*, of
which it takes one: pinned, or from some tiers. What must return and is overwritten unread has its first and
its last content in one item, which is nowhere in between; only the first one is pinned. A first content that
nobody reads stays until the first op starts.

An op runs in one of its *modes*. A mode takes each operand from one tier, or from wherever it is; what an op
reads or writes in another tier than the first lengthens it by the bytes over the processor's rate there.

Points beside ops that no plan needs are left out, where there are two tiers and the second one is unlimited.
Let op k take at most :math:`D_k` ns, whatever its mode and the tiers of its operands, and a copy of an item
:math:`c` ns before or behind an op, :math:`c'` beside one. If :math:`c' \ge D_k + c`, no plan needs the
copy beside k. Without it the slot of k, the maximum of the op's length :math:`\tau \le D_k` and of all copies
beside it, is shorter by at least :math:`c' - \tau \ge c`, or by :math:`c'` if the other copies alone take
as long as the op. A copy inward can as well come before the next op that uses the item, in c ns, and is not
needed at all if there is none, or if the item leaves again before; a copy outward can as well come behind the
op that used or made the item last. In between the item is in the second tier alone, so that less of the first
one is in use, and all else stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from ....models.graph import Accounting, Mode, Op
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .items import DecisionPoint, ItemLifetime, TierPath, items_of
from .steps import Hop, Role, Transition, TransitionData


class Form(StrEnum):
    """Where tensors may change their tier: nowhere, around the ops that use them, also beside others."""

    STATIC = "static"
    SYNC = "sync"
    ASYNC = "async"


@dataclass(frozen=True, kw_only=True)
class TransferRate:
    """A channel: bytes per second (0: there is none), latency in ns."""

    rate: int
    latency: int = 0


@dataclass(frozen=True, kw_only=True)
class ModeData:
    """A mode: its number, ns and bytes of workspace; by tensor, the tier in which it wants it."""

    number: int
    duration: int
    workspace: int
    wanted: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """A limit: a tier, and the moment of each op at which what is there must fit.

    Attributes
    ----------
    tier
        Its number.
    moment
        0 while copies come before the op, 1 while it runs, 2 while copies go behind it.
    rooms
        By op, the bytes that may be in use: the tier's capacity, or fewer (AutoTM's :math:`M_k`).
    """

    tier: int
    moment: int
    rooms: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class AutotmData:
    """What is placed.

    Attributes
    ----------
    modes, operands
        Per op.
    items, walks, at
        All items; all walks, in the order of their items; by op and tensor the number of the item that the op
        accesses.
    ways
        What steps depend on.
    rows
        What must fit.
    rates
        By tier that ops access: bytes per second at which they do; None: at no cost.
    links, links_beside
        The channel of each copy before and behind ops, and beside ops.
    """

    modes: tuple[tuple[ModeData, ...], ...]
    operands: tuple[tuple[int, ...], ...]
    items: tuple[ItemLifetime, ...]
    walks: tuple[TierPath, ...]
    at: Mapping[tuple[int, int], int]
    ways: TransitionData
    rows: tuple[MemoryRow, ...]
    rates: Mapping[int, int | None]
    links: Mapping[Hop, TransferRate]
    links_beside: Mapping[Hop, TransferRate]

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.modes)

    @cached_property
    def ideal(self) -> int:
        """Sum of the durations of the fastest modes, in ns: no run of all ops is shorter.

        With what operands that a mode wants in outer tiers add to it, rounded up as in a run.
        """
        return sum(min(self._shortest(k, mode) for mode in modes) for k, modes in enumerate(self.modes))

    def _shortest(self, k: int, mode: ModeData) -> int:
        sizes = [(self.items[self.at[k, t]].nbytes, tier) for t, tier in mode.wanted.items()]
        return mode.duration + math.ceil(sum(self.slow_time(nbytes, tier) for nbytes, tier in sizes))

    @property
    def sizes(self) -> list[int]:
        """The bytes of items and of workspaces."""
        return [item.nbytes for item in self.items] + [m.workspace for modes in self.modes for m in modes]

    def slow_time(self, nbytes: int, tier: int) -> Fraction:
        """Return the ns by which an operand in a tier lengthens an op."""
        rate = self.rates[tier]
        return Fraction(nbytes * SECOND, rate) if rate else Fraction(0)

    def longest(self, k: int) -> int:
        """Return the ns of op k at most, rounded up, whatever its mode and the tiers of its operands."""
        sizes = [self.items[self.at[k, t]].nbytes for t in self.operands[k]]
        slow = sum(max(self.slow_time(nbytes, tier) for tier in self.rates) for nbytes in sizes)
        return max((mode.duration for mode in self.modes[k]), default=0) + math.ceil(slow)

    def uses(self, k: int, tensor: int) -> list[int]:
        """Return the tiers from which op k can take a tensor, in one of its modes."""
        wanted = {mode.wanted.get(tensor, -1) for mode in self.modes[k]}
        return [tier for tier in self.ways.access if -1 in wanted or tier in wanted]

    def steps(self, walk: TierPath, i: int) -> list[Transition]:
        """Return the steps of a walk at its point i."""
        point, before = walk.points[i], walk.points[i - 1].role if i else None
        last = i + 1 == len(walk.points) or (before is not None and walk.points[i + 1].role is Role.MADE)
        steps = self.ways.steps(point.role, last=last, pinned=walk.fixed or (walk.pinned and i < walk.again))
        if point.role is Role.START:
            return [step for step in steps if step.dst in walk.starts]
        if point.role is Role.END:
            return [step for step in steps if not walk.end & ~step.src]
        if point.role is Role.MADE:
            old = walk.starts if before is Role.START else (0,)
            steps = tuple(step for step in steps if step.src in old)
        if not point.role.accessed:
            return list(steps)
        uses = self.uses(point.op, self.items[walk.item].tensor)
        return [step for step in steps if step.use in uses]

    def spans(self, walk: TierPath) -> Iterator[tuple[int, int, int]]:
        """Yield the ops between points of a walk: the first, the one behind the last, the point before."""
        ops = [point.op for point in walk.points]
        ends = [*ops[1:], min(self.items[walk.item].last + 1, self.n)]
        for i, (k, end) in enumerate(zip(ops, ends, strict=True)):
            if k + 1 < end:
                yield k + 1, end, i

    def alone(self, step: Transition, nbytes: int) -> int:
        """Return the ns of the copies of a step before and behind its op."""
        return sum(copy_time(nbytes, self.links[hop]) for hop in (*step.before, *step.behind))

    def beside(self, step: Transition, nbytes: int) -> int:
        """Return the ns of the copies of a step beside its op."""
        return sum(copy_time(nbytes, self.links_beside[hop]) for hop in step.beside)


def copy_time(nbytes: int, link: TransferRate) -> int:
    """Return the ns of a copy, rounded up, at least one.

    Examples
    --------
    >>> copy_time(10, TransferRate(rate=3 * 10**9, latency=5))
    9
    """
    return max(1, link.latency + -(-nbytes * SECOND // link.rate))


def autotm_data(
    problem: Placement,
    form: Form,
    *,
    window: int = 15,
    beside: tuple[int | None, int | None] = (None, None),
) -> AutotmData:
    """Return the data of AutoTM's model.

    Parameters
    ----------
    problem
        On a machine with a fast and a slow tier.
    form
        Which points there are.
    window
        Ops between a point beside an op and the next op that uses the item, at most.
    beside
        Bytes per second of copies beside ops, into the fast memory and out of it; None: the channel's.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=v100-16g-pcie3")
    >>> [[point.op for point in item.points] for item in autotm_data(problem, Form.SYNC).items]
    [[0, 1], [1, 2], [2, 3]]
    """
    graph, machine = problem.graph, problem.machine
    number = {tier.name: i for i, tier in enumerate(machine.tiers)}
    processor = machine.processors[0]
    rates = {number[access.tier]: access.bytes_per_s for access in processor.tiers}
    total = sum(t.nbytes for t in graph.tensors)
    capacities = [tier.capacity for tier in machine.tiers]
    limited = [i for i, room in enumerate(capacities) if i and room is not None and room < total]
    links = {(number[c.src], number[c.dst]): _link(problem, c.src, c.dst) for c in machine.channels}
    ways = TransitionData(
        tiers=len(machine.tiers),
        hops=frozenset(links),
        access=tuple(sorted(rates)),
        limited=1 | sum(1 << i for i in limited),
        moving=form is not Form.STATIC,
        replace=graph.accounting is Accounting.REPLACE,
    )
    first = (0, 1) if ways.replace else (1,)
    moments = [(0, m) for m in first if capacities[0] is not None]
    moments += [(i, m) for i in limited for m in range(3)]
    rows = [MemoryRow(tier=i, moment=m, rooms=(capacities[i] or 0,) * len(graph.ops)) for i, m in moments]
    items = items_of(problem, window if form is Form.ASYNC else 0)
    if capacities[0] is not None and (0, 0) not in moments and any(x.unread for x in items):
        rows.append(MemoryRow(tier=0, moment=0, rooms=(capacities[0], *(total,) * (len(graph.ops) - 1))))
    data = AutotmData(
        modes=tuple(
            tuple(
                ModeData(
                    number=m,
                    duration=mode.duration_ns,
                    workspace=mode.workspace,
                    wanted=_wanted(op, mode, number, len(rates) > 1),
                )
                for m, mode in enumerate(op.all_modes)
                if processor.kind in (mode.processors or (processor.kind,))
                and all(number.get(tier) in rates for _, tier in mode.operands)
            )
            for op in graph.ops
        ),
        operands=tuple(tuple(sorted({*op.reads, *op.writes})) for op in graph.ops),
        items=items,
        walks=(),
        at={
            (point.op, item.tensor): t
            for t, item in enumerate(items)
            for point in item.points
            if point.role.accessed
        },
        ways=ways,
        rows=tuple(rows),
        rates=rates,
        links=links,
        links_beside={hop: _beside(hop, link, beside) for hop, link in links.items()},
    )
    if len(machine.tiers) == 2 and not limited and form is Form.ASYNC:
        data = replace(data, items=tuple(_useful(data, items)))
    return replace(data, walks=tuple(walk for t in range(len(items)) for walk in _walks(data, t)))


def _link(problem: Placement, src: str, dst: str) -> TransferRate:
    """Return the channel between two tiers, at most as fast as each of its groups: one copy at a time."""
    machine = problem.machine
    channel = next(c for c in machine.channels if (c.src, c.dst) == (src, dst))
    caps = [group.bytes_per_s for group in machine.groups if (src, dst) in group.channels]
    return TransferRate(rate=min([channel.bytes_per_s, *caps]), latency=channel.latency_ns)


def _beside(hop: Hop, link: TransferRate, beside: tuple[int | None, int | None]) -> TransferRate:
    """Return a channel beside ops: with its own rates into the first tier and out of it."""
    rate = beside[0] if hop[1] == 0 else beside[1] if hop[0] == 0 else None
    return TransferRate(rate=min(link.rate, rate or link.rate), latency=link.latency)


def _wanted(op: Op, mode: Mode, number: Mapping[str, int], anywhere: bool) -> dict[int, int]:
    """Return by tensor the tier where a mode wants it, leaving out those taken from anywhere."""
    wanted = dict.fromkeys(op.writes if anywhere else (*op.reads, *op.writes), 0)
    return wanted | {t: number[tier] for t, tier in mode.operands}


def _useful(data: AutotmData, items: tuple[ItemLifetime, ...]) -> Iterator[ItemLifetime]:
    """Yield the items without the points beside ops that no plan needs."""
    longest = [data.longest(k) for k in range(data.n)]
    roles = {(1, 1): Role.PASSED, (1, 0): Role.PASSED_INWARD, (0, 1): Role.PASSED_OUTWARD}
    for item in items:
        spared = [
            copy_time(item.nbytes, data.links_beside[hop]) - copy_time(item.nbytes, data.links[hop])
            if hop in data.links
            else math.inf
            for hop in ((1, 0), (0, 1))
        ]
        points = []
        for point in item.points:
            useful = (
                (int(spared[0] < longest[point.op]), int(spared[1] < longest[point.op]))
                if point.role.passed
                else (1, 1)
            )
            if not point.role.passed:
                points.append(point)
            elif useful in roles:
                points.append(DecisionPoint(op=point.op, role=roles[useful]))
        yield replace(item, points=tuple(points))


def _walks(data: AutotmData, t: int) -> Iterator[TierPath]:
    """Yield the walks of an item; what has no bytes and can be in the first tier is simply there."""
    item = data.items[t]
    accessed = [point.op for point in item.points if point.role.accessed]
    named = any(mode.wanted.get(item.tensor) for k in accessed for mode in data.modes[k])
    fixed = not item.nbytes and not named and (0 in item.starts or not item.initial)
    if fixed or (item.initial and 0 in item.starts):
        whole = TierPath(item=t, points=item.points, starts=(1,), end=1, pinned=True, fixed=fixed)
        stays = len(item.points) if fixed else whole.again
        yield replace(
            whole, points=tuple(x for i, x in enumerate(item.points) if i >= stays or not x.role.passed)
        )
    if fixed:
        return
    outer = [1 << i for i in item.starts if i] if item.initial else []
    for starts, end in [((s,), s) for s in outer] if item.returns else [(tuple(outer), 0)]:
        if starts or not item.initial:
            yield TierPath(item=t, points=item.points, starts=starts, end=end, pinned=False)


def granule(data: AutotmData, row: MemoryRow) -> int:
    """Return the bytes in which the model counts what a row holds: a divisor of all sizes, or pages.

    AutoTM rounds sizes up to pages of 4096 bytes. Here they stay exact, in units of their greatest common
    divisor, unless some op has room for more than :math:`2^{18}` of these; then the unit is the least power
    of two of which it has no more, and sizes are rounded.
    """
    capacity = max(row.rooms)
    unit = max(1, math.gcd(*data.sizes))
    if capacity // unit <= 2**18:
        return unit
    return 1 << (capacity // 2**18).bit_length()

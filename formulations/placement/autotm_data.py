"""What AutoTM's model of tensor placement is about: items with points of decision, ops with modes.

An *item* is a content in fixed bytes: a tensor from the op that overwrites it (or from time 0) until nobody
needs it any more, through all updates in place. Its *points* are where the model decides: time 0 or the op
that makes it, the ops that use or update it, the end of the iteration if it is kept (nGraph's parameters
and results are nodes as well), in the asynchronous form also ops nearby that leave it alone.

An op runs in one of its *modes*. A mode takes each operand from the fast memory, from the slow one, or from
wherever it is; what an op reads or writes in the slow memory lengthens it by the bytes over the processor's
rate there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from ...models.errors import UsageError
from ...models.graph import Accounting, Mode, Op
from ...models.problems.placement import Placement
from .data import Link

SECOND = 10**9


class Form(StrEnum):
    """Where tensors may change their tier: nowhere, around the ops that use them, also beside others."""

    STATIC = "static"
    SYNC = "sync"
    ASYNC = "async"


class Role(StrEnum):
    """What happens to an item at a point."""

    START = "start"
    MADE = "made"
    USED = "used"
    UPDATED = "updated"
    PASSED = "passed"
    END = "end"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of decision: the op (-1 at time 0, the number of ops at the end), and what it does."""

    op: int
    role: Role


@dataclass(frozen=True, kw_only=True)
class Lifetime:
    """A content in fixed bytes.

    Attributes
    ----------
    tensor, nbytes
        Which tensor it is a content of, and its size.
    points
        Where the model decides, ascending.
    users, last
        The ops that access it, ascending; the last op of its life, the number of ops if it is kept.
    fast, slow
        Whether it may be in the fast, in the slow memory at time 0 (if it is there at all then).
    returns
        Whether it must end where it started.
    """

    tensor: int
    nbytes: int
    points: tuple[Point, ...]
    users: tuple[int, ...]
    last: int
    fast: bool
    slow: bool
    returns: bool

    @property
    def initial(self) -> bool:
        """Whether it is there at time 0."""
        return self.points[0].role is Role.START

    def point(self, k: int) -> int:
        """Return the number of the last point up to op k."""
        return bisect_right(self.points, k, key=lambda point: point.op) - 1

    def spans(self, n: int) -> Iterator[tuple[int, int, int, bool]]:
        """Yield the parts of its life in which it does not move.

        For each the first of the n ops, the op behind the last one, the last point up to it, and whether that
        is behind the point: between it and the next one.
        """
        end = min(self.last + 1, n)
        ops = [point.op for point in self.points]
        begins = sorted({k for k in (max(0, ops[0]), *ops, *(k + 1 for k in ops)) if 0 <= k < end})
        for begin, following in zip(begins, [*begins[1:], end], strict=True):
            i = self.point(begin)
            yield begin, following, i, ops[i] < begin and i + 1 < len(ops)


@dataclass(frozen=True, kw_only=True)
class ModeData:
    """A mode: its number, ns and bytes of workspace; by tensor, whether it wants it in the fast memory."""

    number: int
    duration: int
    workspace: int
    fast: Mapping[int, bool]


@dataclass(frozen=True, kw_only=True)
class AutotmData:
    """What is placed.

    Attributes
    ----------
    modes, operands
        Per op.
    items, at
        All items, and by op and tensor the number of the one that the op accesses.
    memory
        Bytes of the fast memory; None without limit.
    slow_rate
        Bytes per second at which ops access the slow memory; None: at no cost; 0: they do not.
    into, out
        Channels to the fast memory and back, for copies before and after ops.
    into_beside, out_beside
        The same for copies beside ops.
    """

    modes: tuple[tuple[ModeData, ...], ...]
    operands: tuple[tuple[int, ...], ...]
    items: tuple[Lifetime, ...]
    at: Mapping[tuple[int, int], int]
    memory: int | None
    slow_rate: int | None
    into: Link
    out: Link
    into_beside: Link
    out_beside: Link

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.modes)

    @property
    def ideal(self) -> int:
        """Sum of the durations of the fastest modes, in ns: no run of all ops is shorter."""
        return sum(min(mode.duration for mode in modes) for modes in self.modes)

    def slow_time(self, nbytes: int) -> Fraction:
        """Return the ns by which an operand in the slow memory lengthens an op."""
        return Fraction(nbytes * SECOND, self.slow_rate) if self.slow_rate else Fraction(0)


def copy_time(nbytes: int, link: Link) -> int:
    """Return the ns of a copy, rounded up, at least one.

    Examples
    --------
    >>> copy_time(10, Link(rate=3 * 10**9, latency=5))
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

    Raises
    ------
    UsageError
        If the model does not cover the problem.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=v100-16g-pcie3")
    >>> [[point.op for point in item.points] for item in autotm_data(problem, Form.SYNC).items]
    [[0, 1], [1, 2], [2, 3]]
    """
    _check(problem)
    graph, machine = problem.graph, problem.machine
    fast, slow = (tier.name for tier in machine.tiers)
    processor = machine.processors[0]
    rates = {access.tier: access.bytes_per_s for access in processor.tiers}
    items = _items(problem, form, window)
    at = {(k, item.tensor): number for number, item in enumerate(items) for k in item.users}
    into, out = _link(problem, slow, fast), _link(problem, fast, slow)
    return AutotmData(
        modes=tuple(
            tuple(
                ModeData(
                    number=number,
                    duration=mode.duration_ns,
                    workspace=mode.workspace,
                    fast=_wanted(op, mode, fast, slow in rates),
                )
                for number, mode in enumerate(op.all_modes)
                if processor.kind in (mode.processors or (processor.kind,))
                and all(tier in rates for _, tier in mode.operands)
            )
            for op in graph.ops
        ),
        operands=tuple(tuple(sorted({*op.reads, *op.writes})) for op in graph.ops),
        items=items,
        at=at,
        memory=machine.tiers[0].capacity,
        slow_rate=rates.get(slow, 0),
        into=into,
        out=out,
        into_beside=Link(rate=min(into.rate, beside[0] or into.rate), latency=into.latency),
        out_beside=Link(rate=min(out.rate, beside[1] or out.rate), latency=out.latency),
    )


def _check(problem: Placement) -> None:
    graph, machine, found = problem.graph, problem.machine, None
    total = sum(t.nbytes for t in graph.tensors)
    overwritten = _overwritten(problem) if problem.periodic else None
    if len(machine.tiers) != 2 or len(machine.processors) != 1:
        found = (
            f"{len(machine.tiers)} tiers and {len(machine.processors)} processors, expected two and one: "
            "a fast memory, a slow one, and a processor"
        )
    elif machine.processors[0].tiers[0].tier != machine.tiers[0].name:
        found = "a processor at home in the second tier, expected it in the first"
    elif machine.processors[0].tiers[0].bytes_per_s is not None:
        found = "a rate at which the processor uses its first tier, expected none"
    elif machine.tiers[1].capacity is not None and machine.tiers[1].capacity < total:
        found = f"a limit of the second tier, expected none or at least the {total} bytes of all tensors"
    elif len({(c.src, c.dst) for c in machine.channels}) != 2:
        found = "no channel in one direction, expected two"
    elif graph.accounting is not Accounting.COEXIST:
        found = f"accounting {graph.accounting!s}, expected coexist"
    elif overwritten is not None:
        found = f"tensor {overwritten} that must return and is overwritten unread, expected an update"
    if found:
        raise UsageError(f"AutoTM on {graph.name!r} and machine {machine.name!r}: found {found}")


def _overwritten(problem: Placement) -> int | None:
    """Return an initial and final tensor that an op overwrites without reading it: a new content."""
    for op in problem.graph.ops:
        for t in op.writes:
            tensor = problem.graph.tensors[t]
            if t not in op.reads and tensor.initial and tensor.final:
                return t
    return None


def _link(problem: Placement, src: str, dst: str) -> Link:
    """Return the channel between two tiers, at most as fast as each of its groups: one copy at a time."""
    machine = problem.machine
    channel = next(c for c in machine.channels if (c.src, c.dst) == (src, dst))
    caps = [group.bytes_per_s for group in machine.groups if (src, dst) in group.channels]
    return Link(rate=min([channel.bytes_per_s, *caps]), latency=channel.latency_ns)


def _wanted(op: Op, mode: Mode, fast: str, anywhere: bool) -> dict[int, bool]:
    """Return by tensor whether a mode wants it in the fast memory, leaving out those taken from anywhere."""
    named = dict(mode.operands)
    wanted = {}
    for t in (*op.reads, *op.writes):
        if t in named:
            wanted[t] = named[t] == fast
        elif t in op.writes or not anywhere:
            wanted[t] = True
    return wanted


def _items(problem: Placement, form: Form, window: int) -> tuple[Lifetime, ...]:
    graph, n = problem.graph, len(problem.graph.ops)
    accesses: list[list[tuple[int, Role]]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            role = Role.USED if t not in op.writes else Role.UPDATED if t in op.reads else Role.MADE
            accesses[t].append((k, role))
    items = []
    for t, tensor in enumerate(graph.tensors):
        contents: list[list[tuple[int, Role]]] = [[(-1, Role.START)]] if tensor.initial else []
        for k, role in accesses[t]:
            if role is Role.MADE:
                contents.append([])
            contents[-1].append((k, role))
        allowed = problem.may_start(tensor.kind)
        for number, points in enumerate(contents):
            kept = tensor.final and number == len(contents) - 1
            users = tuple(k for k, _ in points if k >= 0)
            if kept:
                points.append((n, Role.END))
            if points == [(-1, Role.START)]:
                continue  # nobody needs that content
            items.append(
                Lifetime(
                    tensor=t,
                    nbytes=tensor.nbytes,
                    points=_points(points, form, window),
                    users=users,
                    last=points[-1][0],
                    fast=problem.machine.tiers[0].name in allowed,
                    slow=problem.machine.tiers[1].name in allowed,
                    returns=problem.periodic and kept and tensor.initial,
                )
            )
    return tuple(items)


def _points(users: list[tuple[int, Role]], form: Form, window: int) -> tuple[Point, ...]:
    """Return the points of decision: the first only, all users, or also ops near these."""
    points = [Point(op=k, role=role) for k, role in users]
    if form is Form.STATIC:
        return (points[0],)
    if form is Form.ASYNC:
        taken = {k for k, _ in users}
        near = {
            k
            for user in taken
            for k in range(max(user - window, users[0][0] + 1), min(user + window, users[-1][0] - 1) + 1)
        }
        points += [Point(op=k, role=Role.PASSED) for k in sorted(near - taken)]
    return tuple(sorted(points, key=lambda point: point.op))


def granule(data: AutotmData) -> int:
    """Return the bytes in which the model counts memory: a divisor of all sizes, or pages.

    AutoTM rounds sizes up to pages of 4096 bytes. Here they stay exact, in units of their greatest common
    divisor, unless the fast memory has more than :math:`2^{18}` of these; then the unit is the least power of
    two of which it has no more, and sizes are rounded up, so that solutions always fit.
    """
    sizes = [item.nbytes for item in data.items] + [m.workspace for modes in data.modes for m in modes]
    unit = max(1, math.gcd(*sizes))
    if data.memory is None or data.memory // unit <= 2**18:
        return unit
    return 1 << (data.memory // 2**18).bit_length()

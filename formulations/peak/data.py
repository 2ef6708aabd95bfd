r"""What the three formulations of minimum peak memory share: data in small integers, and a first bound.

Sets and data
-------------
Ops :math:`i \in I`, n of them, at positions :math:`0, \dots, n-1`; their precedence, transitively
reduced (`predecessors`: the same orders, fewer constraints). Lifetimes :math:`l \in L`: tensors that
appear with the same op and vanish with the same ops, in one:

* ``born`` :math:`F_l`: the op that is the first to write it, or None if it is initial;
* ``last`` :math:`A_l`: the ops that access it and precede no other op that does (it is dead when these
  have run, because then all accessors have); empty if it is final;
* ``held``: whether the last access keeps its bytes to the end of its run. In the accounting
  ``coexist`` always; in ``replace`` if it writes (then it is the only op in :math:`A_l`);
* ``nbytes`` :math:`b_l > 0`.

Tensors that are both initial and final are the constant ``base``; tensors that are never live and
tensors without bytes are absent. :math:`w_i` is the least workspace of op i.

All bytes are divided by their greatest common divisor ``unit``. Every memory value of every order is a
sum of them, hence a multiple of ``unit``: the optimum in units times ``unit`` is the optimum in bytes,
and a bound in units may be rounded up to an integer first.

Windows. In any order op i has its ancestors before it and its descendants behind it, so its position is
at least ``earliest`` = :math:`|anc(i)|` and at most ``latest`` = n - 1 - :math:`|desc(i)|`.

Bound. While op i runs, lifetime l is live in every order if (born is None, i or an ancestor of i) and (it
is final, or an op of :math:`A_l` is a descendant of i, or is i and ``held``). Their sum plus
:math:`w_i` bounds the memory while i runs, and so the peak. So does :math:`m_0`, what is there before the
first op: ``base`` and the bytes of all initial lifetimes, which the memory must hold, too. Models state that
alone as a lower bound on their variable of the peak: in ``coexist`` the first op needs no less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.graph import Accounting
from ..model import ticker

if TYPE_CHECKING:
    from ...models.problems.peak import Peak

LARGEST_TOTAL = 2**53
"""Totals stay below it: solvers report objectives and bounds as doubles."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Tensors that appear and vanish together; see the page of mathematics."""

    born: int | None
    last: tuple[int, ...]
    held: bool
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class PeakData:
    """The data of the page of mathematics, all bytes in multiples of `unit`; sets of ops are bit masks."""

    n: int
    unit: int
    replace: bool
    base: int
    predecessors: tuple[tuple[int, ...], ...]
    earliest: tuple[int, ...]
    latest: tuple[int, ...]
    lifetimes: tuple[Lifetime, ...]
    workspace: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]

    @property
    def total(self) -> int:
        """All bytes at once: no peak is larger."""
        return self.base + sum(x.nbytes for x in self.lifetimes) + max(self.workspace, default=0)

    def to_units(self, nbytes: int) -> int:
        """Return bytes in units, rounded up (a bound from below or above on a multiple of `unit`)."""
        return -(-nbytes // self.unit)


def peak_data(problem: Peak, *, masks: bool = True, expired: Callable[[], bool] = lambda: False) -> PeakData:
    """Return the data of a problem.

    Parameters
    ----------
    masks
        Whether to make the sets of ops, which take n^2 / 4 bytes. Without them `ancestors` and `descendants`
        are empty, `earliest` and `latest` say nothing, and predecessors and last accesses that others imply
        stay in.
    expired
        Asked now and then whether to stop; for graphs of many thousand ops these sets take seconds.

    Raises
    ------
    UsageError
        If the sizes are too large for exact reasoning in a solver.
    BuildTimeout
        If it expires before.

    Examples
    --------
    >>> from lowtide import Graph, Op, Peak, Tensor
    >>> graph = Graph(
    ...     name="chain",
    ...     tensors=(Tensor(name="x", nbytes=12), Tensor(name="y", nbytes=20)),
    ...     ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    ... )
    >>> peak_data(Peak(graph)).unit, forced_bound(peak_data(Peak(graph)))
    (4, 8)
    """
    graph = problem.graph
    order, memory = precedence(graph), sequential_memory(graph)
    tick = ticker(expired)
    replace = graph.accounting is Accounting.REPLACE

    def least(ops: Sequence[int]) -> tuple[int, ...]:
        if not masks:
            return tuple(ops)
        tick()
        return maximal(ops, order.ancestors)

    base, merged = 0, dict[tuple[int | None, tuple[int, ...], bool], int]()
    for t, tensor in enumerate(graph.tensors):
        accessors = memory.accessors[t]
        if tensor.initial and tensor.final:
            base += tensor.nbytes
        elif accessors and tensor.nbytes:
            born = None if tensor.initial else accessors[0]
            last = () if tensor.final else least(accessors)
            held = not replace or tensor.final or t in graph.ops[accessors[-1]].writes
            merged[born, last, held] = merged.get((born, last, held), 0) + tensor.nbytes
    workspace = [op.least_workspace for op in graph.ops]
    unit = math.gcd(base, *merged.values(), *workspace) or 1
    n = len(graph.ops)
    tick()
    lifetimes = tuple(Lifetime(*key, nbytes // unit) for key, nbytes in merged.items())
    data = PeakData(
        n=n,
        unit=unit,
        replace=replace,
        base=base // unit,
        predecessors=tuple(map(least, order.predecessors)),
        earliest=tuple(mask.bit_count() for mask in order.ancestors) if masks else (0,) * n,
        latest=tuple(n - 1 - mask.bit_count() for mask in order.descendants) if masks else (n - 1,) * n,
        lifetimes=lifetimes,
        workspace=tuple(w // unit for w in workspace),
        ancestors=order.ancestors if masks else (),
        descendants=order.descendants if masks else (),
    )
    if data.total >= LARGEST_TOTAL:
        raise UsageError(
            f"graph {graph.name!r}: found {data.total} units of {unit} bytes in total, "
            f"expected less than 2^53 (solvers report bounds as doubles)"
        )
    return data


def forced_bound(data: PeakData, expired: Callable[[], bool] = lambda: False) -> int:
    """Return the bound of the page of mathematics, in units.

    Raises
    ------
    BuildTimeout
        If it expires before.
    """
    tick = ticker(expired)
    everything = (1 << data.n) - 1
    forced = np.array(data.workspace, dtype=np.int64)
    for x in data.lifetimes:
        tick()
        mask = everything if x.born is None else data.descendants[x.born] | (1 << x.born)
        if x.last:
            needed = closure(x.last, data.ancestors)
            mask &= needed if x.held else needed & ~sum(1 << i for i in x.last)
        bits = np.frombuffer(mask.to_bytes(data.n // 8 + 1, "little"), dtype=np.uint8)
        forced += np.unpackbits(bits, bitorder="little", count=data.n).astype(np.int64) * x.nbytes
    return max(start_bytes(data), data.base + int(forced.max(initial=0)))


def accessed_bound(data: PeakData) -> int:
    """Return the bytes of the start, or that some op has live by its own accesses: a bound without masks."""
    held = list(data.workspace)
    for x in data.lifetimes:
        for i in {*(() if x.born is None else (x.born,)), *(x.last if x.held else ())}:
            held[i] += x.nbytes
    return max(start_bytes(data), data.base + max(held, default=0))


def start_bytes(data: PeakData) -> int:
    """Return what is there before the first op, in units."""
    return data.base + sum(x.nbytes for x in data.lifetimes if x.born is None)


def shared_deaths(data: PeakData) -> dict[tuple[int, ...], int]:
    """Return the different A_l of two or more ops, each with the sum of its bytes."""
    deaths: dict[tuple[int, ...], int] = {}
    for x in data.lifetimes:
        if len(x.last) > 1:
            deaths[x.last] = deaths.get(x.last, 0) + x.nbytes
    return deaths


def death_window(data: PeakData, ops: tuple[int, ...]) -> tuple[int, int]:
    """Return how many ops have run, at the least and at the most, when the last of `ops` just has."""
    return closure(ops, data.ancestors).bit_count(), 1 + max(data.latest[i] for i in ops)


@dataclass(frozen=True, slots=True)
class OpBytes:
    """Bytes per op, and those that are there at the start.

    Attributes
    ----------
    first
        Appear with the op.
    alone
        Vanish with the op alone.
    extra
        What the op adds, while it runs, to the memory before it (``coexist``) or after it (``replace``).
    start
        Live before the first op.
    """

    first: tuple[int, ...]
    alone: tuple[int, ...]
    extra: tuple[int, ...]
    start: int


def op_bytes(data: PeakData) -> OpBytes:
    """Return the bytes of the lifetimes by op."""
    first, alone, extra = [0] * data.n, [0] * data.n, list(data.workspace)
    for x in data.lifetimes:
        if x.born is not None:
            first[x.born] += x.nbytes
            extra[x.born] += 0 if data.replace else x.nbytes
        if len(x.last) == 1:
            alone[x.last[0]] += x.nbytes
            extra[x.last[0]] += x.nbytes if data.replace and x.held else 0
    return OpBytes(tuple(first), tuple(alone), tuple(extra), start_bytes(data))


def model_name(data: PeakData) -> str:
    """Return the name that models carry into exported files; it says what their objective counts."""
    return f"peak_in_units_of_{data.unit}_bytes"


def peak_range(data: PeakData, lower: int, upper: int | None) -> tuple[int, int]:
    """Return the least and the greatest peak that a model looks for, given what is known."""
    most = data.total if upper is None else min(upper, data.total)
    return max(lower, forced_bound(data)), most


def positions(order: Sequence[int]) -> list[int]:
    """Return the position of each op in an order."""
    return sorted(range(len(order)), key=order.__getitem__)


def order_of(position: Sequence[int]) -> tuple[int, ...]:
    """Return the ops by position, those at one position as the graph lists them."""
    return tuple(sorted(range(len(position)), key=position.__getitem__))


def occupied(lifetimes: Iterable[Lifetime], order: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions of the first op (-1: initial) and of the last one (n: final) of lifetimes."""
    position = positions(order)
    return [
        (-1 if x.born is None else position[x.born], max((position[i] for i in x.last), default=len(order)))
        for x in lifetimes
    ]


def order_peak(data: PeakData, order: Sequence[int]) -> int:
    """Return the peak of a valid order in units, from the lifetimes."""
    position = positions(order)
    change = [0] * (data.n + 1)
    for x in data.lifetimes:
        change[0 if x.born is None else position[x.born]] += x.nbytes
        if x.last:
            change[max(position[i] for i in x.last) + x.held] -= x.nbytes
    now, peak = data.base, start_bytes(data)
    for s, i in enumerate(order):
        now += change[s]
        peak = max(peak, now + data.workspace[i])
    return peak


def closure(ops: tuple[int, ...], ancestors: tuple[int, ...]) -> int:
    """Return the ops and their ancestors as a bit mask."""
    mask = 0
    for i in ops:
        mask |= ancestors[i] | (1 << i)
    return mask


def maximal(ops: Sequence[int], ancestors: Sequence[int]) -> tuple[int, ...]:
    """Return the ops that are ancestors of no other one, in their order."""
    covered = 0
    for i in ops:
        covered |= ancestors[i]
    return tuple(i for i in ops if not covered >> i & 1)

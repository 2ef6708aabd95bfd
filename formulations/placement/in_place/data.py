r"""What placement is about where ops may use a second tier in place: items, operands, and ways to run an op.

One processor, at home in the first tier; a second tier that it uses in place, at a rate or for nothing.

An *item* is a content in fixed bytes: a tensor from the op that overwrites it (or from time 0) until nobody
needs it any more, through all updates in place. Of a tensor that outlives the iterations of a period, the
content that goes on and the one that was there at time 0 are one item, which is in the same tiers at both
ends; in between it may be nowhere.

An op takes each *operand*, a tensor that it reads or writes, in one of three ways: `NEAR`, in the first tier;
`FAR`, in the second one; `RAISED`: it reads the old content in the second tier, and writes the new one in the
first. The last two lengthen it by :math:`l` ns, the bytes over the processor's rate. The modes of an op say
which ways it has: a write is at home unless a mode says otherwise, a read may be anywhere unless it does.
A *configuration* is a mode with a way for each operand, with room for all of that in the first tier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from itertools import product

from ....models.graph import Op
from ....models.problems.placement import Placement
from ....models.units import SECOND

NEAR, FAR, RAISED = range(3)

MOST_CONFIGURATIONS = 4096
"""Of an op; with more of them, room is not checked, which only lowers the bound."""


class OperandRole(IntEnum):
    """What an op does to an operand."""

    READ = 0
    WRITE = 1
    UPDATE = 2


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor that an op uses; `ways`: by mode, in which ways; `slow`: ns that the second tier adds."""

    op: int
    tensor: int
    nbytes: int
    role: OperandRole
    ways: tuple[tuple[int, ...], ...]
    slow: Fraction


@dataclass(frozen=True, kw_only=True)
class Item:
    """A content in fixed bytes.

    Attributes
    ----------
    tensor, nbytes
        Of which tensor, and its size.
    uses
        Numbers of the operands that it is, ascending by op; the first one may write it.
    initial, kept, cyclic
        Whether it is there at time 0; whether it is there at the end; whether it goes on from there.
    starts
        Whether it may be in the first and in the second tier at time 0.
    """

    tensor: int
    nbytes: int
    uses: tuple[int, ...]
    initial: bool
    kept: bool
    cyclic: bool
    starts: tuple[bool, bool]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A mode, by its place among those of the op, and the way of each operand; ns; bytes of workspace."""

    mode: int
    ways: tuple[int, ...]
    time: Fraction
    workspace: int


@dataclass(frozen=True, kw_only=True)
class InPlaceData:
    """What is placed.

    Attributes
    ----------
    operands
        In the order of their ops.
    first
        By op, the number of its first operand; n + 1 numbers.
    items
        By tensor.
    modes
        By op: numbers of the modes that the processor has, with ns and bytes of workspace.
    capacity
        Bytes of the first tier.
    inward, outward
        Bytes per second of the channels into the first tier and out of it; 0: there is none.
    periodic
        Whether the ops repeat.
    """

    operands: tuple[Operand, ...]
    first: tuple[int, ...]
    items: tuple[Item, ...]
    modes: tuple[tuple[tuple[int, int, int], ...], ...]
    capacity: int
    inward: int
    outward: int
    periodic: bool

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.modes)

    def of(self, k: int) -> tuple[Operand, ...]:
        """Return the operands of an op."""
        return self.operands[self.first[k] : self.first[k + 1]]

    def configurations(self, k: int) -> Iterator[Configuration]:
        """Yield the configurations of an op: those with room, unless there are too many to look."""
        some = self.of(k)
        for m, (_, ns, workspace) in enumerate(self.modes[k]):
            for ways in product(*(x.ways[m] for x in some)):
                held = sum(x.nbytes for x, way in zip(some, ways, strict=True) if way != FAR)
                if held + workspace <= self.capacity:
                    slow = sum(
                        (x.slow for x, way in zip(some, ways, strict=True) if way != NEAR), Fraction(0)
                    )
                    yield Configuration(mode=m, ways=ways, time=ns + slow, workspace=workspace)

    def count(self, k: int) -> int:
        """Return how many configurations an op has, with room or without."""
        total = 0
        for m in range(len(self.modes[k])):
            many = 1
            for x in self.of(k):
                many *= len(x.ways[m])
            total += many
        return total


def in_place_data(problem: Placement) -> InPlaceData:
    """Return the data of a problem on two tiers that the processor uses both.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=optane-node&device=24B")
    >>> data = in_place_data(problem)
    >>> len(data.items), [len(list(data.configurations(k))) for k in range(3)]
    (3, [1, 2, 2])
    """
    graph, machine = problem.graph, problem.machine
    (processor,) = machine.processors
    near, far = (tier.name for tier in machine.tiers)
    assert [a.tier for a in processor.tiers] == [near, far]
    rate = processor.tiers[1].bytes_per_s
    channels = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    operands, first = list[Operand](), [0]
    uses: list[list[tuple[int, OperandRole]]] = [[] for _ in graph.tensors]
    modes = []
    for k, op in enumerate(graph.ops):
        some = [
            (m, x)
            for m, x in enumerate(op.all_modes)
            if processor.kind in (x.processors or (processor.kind,))
        ]
        modes.append(tuple((m, x.duration_ns, x.workspace) for m, x in some))
        for t in sorted({*op.reads, *op.writes}):
            nbytes = graph.tensors[t].nbytes
            role = _role(op, t)
            uses[t].append((len(operands), role))
            operands.append(
                Operand(
                    op=k,
                    tensor=t,
                    nbytes=nbytes,
                    role=role,
                    ways=tuple(_ways(role, dict(x.operands).get(t), near) for _, x in some),
                    slow=Fraction(nbytes * SECOND, rate) if rate else Fraction(0),
                )
            )
        first.append(len(operands))
    total = sum(t.nbytes for t in graph.tensors) + max(x.workspace for op in graph.ops for x in op.all_modes)
    capacity = machine.tiers[0].capacity
    return InPlaceData(
        operands=tuple(operands),
        first=tuple(first),
        items=tuple(item for t in range(len(graph.tensors)) for item in _items(problem, t, uses[t])),
        modes=tuple(modes),
        capacity=total if capacity is None else capacity,
        inward=channels.get((far, near), 0),
        outward=channels.get((near, far), 0),
        periodic=problem.periodic,
    )


def _role(op: Op, t: int) -> OperandRole:
    return (
        OperandRole.READ if t not in op.writes else OperandRole.UPDATE if t in op.reads else OperandRole.WRITE
    )


def _ways(role: OperandRole, named: str | None, near: str) -> tuple[int, ...]:
    """Return the ways in which a mode that names a tier for an operand, or none, takes it."""
    if named is not None:
        return (NEAR,) if named == near else (FAR,)
    return {OperandRole.READ: (NEAR, FAR), OperandRole.WRITE: (NEAR,), OperandRole.UPDATE: (NEAR, RAISED)}[
        role
    ]


def _items(problem: Placement, t: int, uses: Sequence[tuple[int, OperandRole]]) -> Iterator[Item]:
    """Yield the items of a tensor."""
    tensor = problem.graph.tensors[t]
    tiers = problem.may_start(tensor.kind)
    contents: list[list[int]] = [[]]
    for j, role in uses:
        if role is OperandRole.WRITE:
            contents.append([])
        contents[-1].append(j)
    cyclic = problem.periodic and tensor.initial and tensor.final
    if cyclic and len(contents) > 1:
        contents[0] += contents.pop()
    for number, some in enumerate(contents):
        last = number == len(contents) - 1
        initial = tensor.initial and not number
        kept = tensor.final and last if not cyclic else not number
        if (some or kept) and (number or initial):
            yield Item(
                tensor=t,
                nbytes=tensor.nbytes,
                uses=tuple(some),
                initial=initial,
                kept=kept,
                cyclic=cyclic and initial,
                starts=(problem.machine.tiers[0].name in tiers, problem.machine.tiers[1].name in tiers),
            )

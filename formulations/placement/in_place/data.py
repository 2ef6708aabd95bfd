r"""Ops that use a second tier in place: live ranges, operands, and the configurations of an op.

One processor, at home in the first tier; a second tier that it uses in place, at a rate or at no cost.

A *live range* is a tensor from the op that overwrites it, or from time 0, until no op needs it any more,
through all updates in place. Of a tensor that outlives the iterations of a period, the last contents of one
iteration and the first ones of the next are one live range. It is in the same tiers at both ends; in between
it may be in none.

An op has one of three *accesses* to each *operand*, a tensor that it reads or writes: `NEAR`, in the first
tier; `FAR`, in the second one; `RAISED`: it reads the old contents in the second tier and writes the new
ones in the first. The last two lengthen the op by the bytes over the processor's rate. The modes of an op say
which accesses it has. Where a mode does not, a write is in the first tier, and a read may be in either.
A *configuration* is a mode with an access to each operand, with room for all of them in the first tier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ....models.graph import Op
from ....models.problems.placement import Placement
from ....models.units import SECOND

NEAR, FAR, RAISED = range(3)
READ, WRITE, UPDATE = range(3)


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor that an op uses: its bytes, its role (`READ`, `WRITE` or `UPDATE`), its accesses by mode."""

    op: int
    tensor: int
    nbytes: int
    role: int
    accesses: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class LiveRange:
    """A tensor from where it is written, or time 0, to its last use.

    Attributes
    ----------
    tensor, nbytes
        The number of the tensor, and its size.
    uses
        Numbers of its operands, ascending by op; the first one may write it.
    initial, kept, cyclic
        Whether it exists at time 0; whether it exists at the end; whether the next iteration starts with it.
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
    """The access to each operand of an op; the mode's ns; bytes in the second tier, and of workspace."""

    accesses: tuple[int, ...]
    ns: int
    far: int
    workspace: int


@dataclass(frozen=True, kw_only=True)
class InPlaceData:
    """A question about ops that use a second tier in place.

    Attributes
    ----------
    operands
        The operands of all ops, in the order of the ops.
    first
        The number of each op's first operand, and the number of operands.
    ranges
        Live ranges, by tensor.
    modes
        By op, the modes that the processor supports: number, ns, bytes of workspace.
    capacity
        Bytes of the first tier; if it has no limit, the bytes of all tensors and the largest workspace.
    rate
        Bytes per second at which an op uses the second tier; 0: as fast as the first one.
    inward, outward
        Bytes per second of the channels into the first tier and out of it; 0: there is none.
    """

    operands: tuple[Operand, ...]
    first: tuple[int, ...]
    ranges: tuple[LiveRange, ...]
    modes: tuple[tuple[tuple[int, int, int], ...], ...]
    capacity: int
    rate: int
    inward: int
    outward: int

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.modes)

    def operands_of(self, k: int) -> tuple[Operand, ...]:
        """Return the operands of an op."""
        return self.operands[self.first[k] : self.first[k + 1]]

    def slowdown(self, nbytes: int, parts: int = 1) -> int:
        """Return what bytes in the second tier add to the length of an op, in ns / `parts`, rounded down."""
        return nbytes * SECOND * parts // self.rate if self.rate else 0

    def configurations(self, k: int) -> Iterator[Configuration]:
        """Yield the configurations of an op."""
        operands = self.operands_of(k)
        for m, (_, ns, workspace) in enumerate(self.modes[k]):
            for accesses in product(*(x.accesses[m] for x in operands)):
                sizes = [(x.nbytes, access) for x, access in zip(operands, accesses, strict=True)]
                if sum(z for z, access in sizes if access != FAR) + workspace <= self.capacity:
                    far = sum(z for z, access in sizes if access != NEAR)
                    yield Configuration(accesses=accesses, ns=ns, far=far, workspace=workspace)

    def count_configurations(self, k: int) -> int:
        """Return the number of configurations of an op, those without room included."""
        return sum(prod(len(x.accesses[m]) for x in self.operands_of(k)) for m in range(len(self.modes[k])))


def in_place_data(problem: Placement) -> InPlaceData:
    """Return the data of a problem on two tiers, both used by its only processor.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=optane-node&device=24B")
    >>> data = in_place_data(problem)
    >>> len(data.ranges), [len(list(data.configurations(k))) for k in range(3)]
    (3, [1, 2, 2])
    """
    graph, machine = problem.graph, problem.machine
    (processor,) = machine.processors
    near, far = (tier.name for tier in machine.tiers)
    assert [a.tier for a in processor.tiers] == [near, far]
    channels = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    operands, first = list[Operand](), [0]
    uses: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    modes = []
    for k, op in enumerate(graph.ops):
        supported = [
            (m, x)
            for m, x in enumerate(op.all_modes)
            if processor.kind in (x.processors or (processor.kind,))
        ]
        modes.append(tuple((m, x.duration_ns, x.workspace) for m, x in supported))
        named = [dict(x.operands) for _, x in supported]
        for t in sorted({*op.reads, *op.writes}):
            role = _role(op, t)
            uses[t].append((len(operands), role))
            operands.append(
                Operand(
                    op=k,
                    tensor=t,
                    nbytes=graph.tensors[t].nbytes,
                    role=role,
                    accesses=tuple(_accesses(role, tiers.get(t), near) for tiers in named),
                )
            )
        first.append(len(operands))
    total = sum(t.nbytes for t in graph.tensors) + max(x.workspace for op in graph.ops for x in op.all_modes)
    capacity = machine.tiers[0].capacity
    return InPlaceData(
        operands=tuple(operands),
        first=tuple(first),
        ranges=tuple(x for t in range(len(graph.tensors)) for x in _live_ranges(problem, t, uses[t])),
        modes=tuple(modes),
        capacity=total if capacity is None else capacity,
        rate=processor.tiers[1].bytes_per_s or 0,
        inward=channels.get((far, near), 0),
        outward=channels.get((near, far), 0),
    )


def _role(op: Op, t: int) -> int:
    if t not in op.writes:
        return READ
    return UPDATE if t in op.reads else WRITE


def _accesses(role: int, named: str | None, near: str) -> tuple[int, ...]:
    """Return the accesses of a mode to an operand; `named`: the tier that the mode names for it, or None."""
    if named is not None:
        return (NEAR,) if named == near else (FAR,)
    return {READ: (NEAR, FAR), WRITE: (NEAR,), UPDATE: (NEAR, RAISED)}[role]


def _live_ranges(problem: Placement, t: int, uses: Sequence[tuple[int, int]]) -> Iterator[LiveRange]:
    """Yield the live ranges of a tensor."""
    tensor = problem.graph.tensors[t]
    tiers = problem.may_start(tensor.kind)
    parts: list[list[int]] = [[]]  # the uses of the contents at time 0, then of those of each overwriting op
    for j, role in uses:
        if role == WRITE:
            parts.append([])
        parts[-1].append(j)
    cyclic = problem.periodic and tensor.initial and tensor.final
    if cyclic and len(parts) > 1:
        parts[0] += parts.pop()
    for number, operands in enumerate(parts):
        initial = tensor.initial and not number
        kept = tensor.final and (not number if cyclic else number == len(parts) - 1)
        if (operands or kept) and (number or initial):
            yield LiveRange(
                tensor=t,
                nbytes=tensor.nbytes,
                uses=tuple(operands),
                initial=initial,
                kept=kept,
                cyclic=cyclic and initial,
                starts=(problem.machine.tiers[0].name in tiers, problem.machine.tiers[1].name in tiers),
            )

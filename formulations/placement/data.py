r"""What the models of tensor placement share: lives of tensor versions, outer tiers, rates and caps.

Ops :math:`k = 0..n-1` run one after another, each for :math:`d_k` ns; while k runs, everything that it
accesses is in the fast memory, :math:`W_k` bytes with its workspace. A *life* is one version of a tensor
whose content somebody still needs: born at the end of the op that writes it (or at time 0), until its last
access, the end of the iteration if it must be kept. An op that reads and writes a tensor accesses the old
version last and bears the new one, in the same bytes. Between two versions, when nobody needs the content,
the tensor occupies nothing. Versions that nobody reads live during their writer only.

The models cover single runs of whole iterations on a machine with one processor that uses the first tier
only, and channels between that tier and outer ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ...models.errors import UsageError
from ...models.graph import Accounting
from ...models.machine import Machine
from ...models.problems.placement import Placement


@dataclass(frozen=True, kw_only=True)
class Link:
    """A channel: bytes per second (0: there is none), latency in ns."""

    rate: int
    latency: int = 0


@dataclass(frozen=True, kw_only=True)
class Outer:
    """An outer tier: capacity in bytes or None, the channels out to it and in from it."""

    name: str
    capacity: int | None
    out: Link
    into: Link


@dataclass(frozen=True, kw_only=True)
class Cap:
    """Bytes per second of several channels together: outer tiers by direction."""

    out: tuple[int, ...]
    into: tuple[int, ...]
    rate: int


@dataclass(frozen=True, kw_only=True)
class Lifetime:
    """One version of a tensor.

    Attributes
    ----------
    tensor, nbytes
        Which one, and its size.
    born
        The op that writes it; -1: it is there at time 0.
    accesses
        Ops that need it in the fast memory, ascending, without `born`.
    kept
        Whether it must be somewhere at the end.
    device, outer
        Where it may be at time 0 (if `born` is -1): in the fast memory, in each outer tier.
    """

    tensor: int
    nbytes: int
    born: int
    accesses: tuple[int, ...]
    kept: bool
    device: bool
    outer: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class PlacementData:
    """What is placed.

    Attributes
    ----------
    duration, need
        Per op: ns, and bytes in the fast memory while it runs (:math:`W_k`).
    memory
        Bytes of the fast memory (a sum of everything, if it is unlimited).
    lives
        By tensor, then by birth; those of zero bytes left out.
    outer, caps
        The outer tiers, and joint caps of channels.
    """

    duration: tuple[int, ...]
    need: tuple[int, ...]
    memory: int
    lives: tuple[Lifetime, ...]
    outer: tuple[Outer, ...]
    caps: tuple[Cap, ...]

    @property
    def n(self) -> int:
        """Number of ops."""
        return len(self.duration)

    @property
    def ideal(self) -> int:
        """Sum of the durations, in ns: the time without any stall."""
        return sum(self.duration)


def placement_data(problem: Placement) -> PlacementData:
    """Return the data of a single run.

    Raises
    ------
    UsageError
        If the problem is periodic, counts its memory by ``replace``, has ops with several modes, or a
        machine with several processors, reads in place outside its first tier or channels between outer
        tiers.

    Examples
    --------
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=a100-40g-pcie3")
    >>> [(life.born, life.accesses) for life in placement_data(problem).lives]
    [(0, (1,)), (1, (2,)), (2, ())]
    """
    _check(problem)
    graph, machine = problem.graph, problem.machine
    sizes = [t.nbytes for t in graph.tensors]
    need = [op.all_modes[0].workspace + sum(sizes[t] for t in {*op.reads, *op.writes}) for op in graph.ops]
    device = machine.tiers[0].capacity
    total = sum(sizes) + max((op.all_modes[0].workspace for op in graph.ops), default=0)
    return PlacementData(
        duration=tuple(op.all_modes[0].duration_ns for op in graph.ops),
        need=tuple(need),
        memory=total if device is None else min(device, total),
        lives=_lives(problem),
        outer=_outer(machine),
        caps=_caps(machine),
    )


def _check(problem: Placement) -> None:
    machine, found = problem.machine, None
    device = machine.tiers[0].name
    if problem.periodic:
        found = "a periodic problem, expected a single run"
    elif problem.graph.accounting is not Accounting.COEXIST:
        found = f"accounting {problem.graph.accounting!s}, expected coexist"
    elif any(len(op.all_modes) > 1 or op.all_modes[0].operands for op in problem.graph.ops):
        found = "ops with several modes or fixed tiers, expected one free mode each"
    elif len(machine.processors) != 1 or [a.tier for a in machine.processors[0].tiers] != [device]:
        found = "another use of tiers, expected one processor that uses the first tier only"
    elif any(device not in (c.src, c.dst) for c in machine.channels):
        found = "a channel between outer tiers, expected all of them at the first tier"
    if found:
        raise UsageError(f"placement of {problem.graph.name!r} on machine {machine.name!r}: found {found}")


def _lives(problem: Placement) -> tuple[Lifetime, ...]:
    graph = problem.graph
    tiers = [t.name for t in problem.machine.tiers]
    reads: list[list[int]] = [[] for _ in graph.tensors]
    writes: list[list[int]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in op.reads:
            reads[t].append(k)
        for t in op.writes:
            writes[t].append(k)
    lives = []
    for t, tensor in enumerate(graph.tensors):
        births = ([-1] if tensor.initial else []) + writes[t]
        for born, following in pairwise([*births, None]):
            assert born is not None
            accesses = tuple(k for k in reads[t] if born < k and (following is None or k <= following))
            kept = tensor.final and following is None
            if tensor.nbytes and (accesses or kept):
                allowed = problem.may_start(tensor.kind)
                lives.append(
                    Lifetime(
                        tensor=t,
                        nbytes=tensor.nbytes,
                        born=born,
                        accesses=accesses,
                        kept=kept,
                        device=tiers[0] in allowed,
                        outer=tuple(tier in allowed for tier in tiers[1:]),
                    )
                )
    return tuple(lives)


def _outer(machine: Machine) -> tuple[Outer, ...]:
    device = machine.tiers[0].name
    links = {(c.src, c.dst): Link(rate=c.bytes_per_s, latency=c.latency_ns) for c in machine.channels}
    none = Link(rate=0)
    return tuple(
        Outer(
            name=tier.name,
            capacity=tier.capacity,
            out=links.get((device, tier.name), none),
            into=links.get((tier.name, device), none),
        )
        for tier in machine.tiers[1:]
    )


def _caps(machine: Machine) -> tuple[Cap, ...]:
    device = machine.tiers[0].name
    number = {tier.name: x for x, tier in enumerate(machine.tiers[1:])}
    return tuple(
        Cap(
            out=tuple(number[dst] for src, dst in group.channels if src == device),
            into=tuple(number[src] for src, dst in group.channels if dst == device),
            rate=group.bytes_per_s,
        )
        for group in machine.groups
    )

"""Machines of which each processor uses one memory: what runs where, and the links between memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InstanceError
from ..machine import Machine
from ..units import SECOND
from .processors import Processors, checked_processors


class Place(NamedTuple):
    """Processors of one kind that use one memory, by its number."""

    memory: int
    kind: str
    processors: tuple[str, ...]


class Link(NamedTuple):
    """A way from one memory to another.

    A transfer of b bytes takes `latency` ns and then ``ceil(b * 10**9 / bytes_per_s)`` ns, in which it has
    all that it shares, `lanes`, to itself.
    """

    bytes_per_s: int
    latency: int
    lanes: tuple[str, ...]

    def busy(self, nbytes: int) -> int:
        """Return the nanoseconds that a transfer has the link to itself."""
        return -(-nbytes * SECOND // self.bytes_per_s)

    def time(self, nbytes: int) -> int:
        """Return the nanoseconds that a transfer takes."""
        return self.latency + self.busy(nbytes)


def memories_of(machine: Machine) -> tuple[str, ...]:
    """Return the tiers that processors use, in the machine's order."""
    used = {p.tiers[0].tier for p in machine.processors}
    return tuple(t.name for t in machine.tiers if t.name in used)


def places_of(machine: Machine) -> tuple[Place, ...]:
    """Return the processors, those of one kind and memory together, in the machine's order."""
    memories = memories_of(machine)
    names_of: dict[tuple[int, str], list[str]] = {}
    for p in machine.processors:
        names_of.setdefault((memories.index(p.tiers[0].tier), p.kind), []).append(p.name)
    return tuple(Place(*key, tuple(names)) for key, names in names_of.items())


def links_of(machine: Machine) -> dict[tuple[int, int], Link]:
    """Return the channels between memories, by memory from and to; groups slow them down and are lanes."""
    number = {name: k for k, name in enumerate(memories_of(machine))}
    links = {}
    for c in machine.channels:
        if c.src in number and c.dst in number:
            groups = [g for g in machine.groups if (c.src, c.dst) in g.channels]
            rate = min([c.bytes_per_s, *(g.bytes_per_s for g in groups)])
            own = (f"{c.src}->{c.dst}",) if c.shared else ()
            lanes = tuple(f"group {g.name}" for g in groups) or own
            links[number[c.src], number[c.dst]] = Link(rate, c.latency_ns, lanes)
    return links


def check_memories(machine: Machine) -> None:
    """Raise `InstanceError` unless each processor reads and writes one tier, without a rate."""
    for p in machine.processors:
        if len(p.tiers) > 1 or p.tiers[0].bytes_per_s is not None:
            found = " and ".join(a.tier for a in p.tiers)
            raise InstanceError(
                f"distributed, machine {machine.name!r}, processor {p.name!r}: found tiers {found}"
                f"{' with a rate' if len(p.tiers) == 1 else ''}, expected one memory without a rate"
            )


def first_processors(machine: Machine, processors: Processors) -> Sequence[str]:
    """Return the names of the first processors of a machine, or of each kind."""
    asked = checked_processors(processors)
    first = []
    for kind, count in ((None, asked),) if isinstance(asked, int) else asked:
        fit = [p.name for p in machine.processors if kind in (None, p.kind)]
        if len(fit) < count:
            of_kind = "" if kind is None else f" of kind {kind!r}"
            raise InstanceError(
                f"distributed, processors: found {count}{of_kind}, expected at most {len(fit)}, as machine "
                f"{machine.name!r} has"
            )
        first += fit[:count]
    return first

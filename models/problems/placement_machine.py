"""The machines of `placement`: every tier within reach, numbers whose sums and products stay exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import InstanceError
from ..graph import Graph
from ..machine import Machine
from .recompute_machine import ONE_MEMORY, with_named_tiers

Starts = Mapping[str, tuple[str, ...]]

LARGEST = 10**17
"""Of capacities in bytes, rates in bytes per second and latencies in ns."""


def named_as_chains(machine: Machine, start: Starts | None, graph: Graph) -> tuple[Machine, Starts | None]:
    """Return the machine and the starts with the tiers that modes of a taped chain name.

    Its first tier is called as they call the memory; the tiers that they lose tensors to, which it lacks,
    stand behind it. Both are as they were where modes name no memory, or the machine has one.
    """
    memory, first = ONE_MEMORY.tiers[0].name, machine.tiers[0].name
    named = {tier for op in graph.ops for mode in op.modes for _, tier in mode.operands}
    known = {tier.name for tier in machine.tiers}
    if memory not in named - known or len(machine.processors) != 1:
        return machine, start
    renamed = with_named_tiers(machine, graph)
    tiers = sorted(renamed.tiers[1:], key=lambda tier: tier.name in known)
    if start is not None:
        start = {kind: tuple(memory if x == first else x for x in some) for kind, some in start.items()}
    return replace(renamed, tiers=(renamed.tiers[0], *tiers)), start


def check_reach(machine: Machine) -> None:
    """Raise if a tier that no processor uses has no way to one that is used, or none back."""
    used = {access.tier for p in machine.processors for access in p.tiers}
    for what, ends in (
        ("to", [(c.src, c.dst) for c in machine.channels]),
        ("from", [(c.dst, c.src) for c in machine.channels]),
    ):
        reached = set(used)
        while more := {a for a, b in ends if b in reached} - reached:
            reached |= more
        for tier in machine.tiers:
            if tier.name not in reached:
                raise InstanceError(
                    f"machine {machine.name!r}, tier {tier.name!r}: found no channel {what} the processors' "
                    f"tiers{'' if what == 'to' else ' that leads there'}, expected one in each direction"
                )


def check_sizes(machine: Machine) -> None:
    """Raise if a number is so large that sums and products of a few of them leave 64 bits."""
    numbers = [(f"tier {t.name!r}, capacity", t.capacity) for t in machine.tiers]
    for c in machine.channels:
        where = f"channel {c.src!r} to {c.dst!r}"
        numbers += [(f"{where}, bytes_per_s", c.bytes_per_s), (f"{where}, latency_ns", c.latency_ns)]
    numbers += [(f"group {g.name!r}, bytes_per_s", g.bytes_per_s) for g in machine.groups]
    for what, value in numbers:
        if value is not None and value > LARGEST:
            raise InstanceError(
                f"machine {machine.name!r}, {what}: found {value}, expected at most {LARGEST}"
            )

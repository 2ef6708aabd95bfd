"""The machines of `placement`: every tier within reach, numbers whose sums and products stay exact."""

from __future__ import annotations

from ..errors import InstanceError
from ..machine import Machine

LARGEST = 10**17
"""Of capacities in bytes, rates in bytes per second and latencies in ns."""


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

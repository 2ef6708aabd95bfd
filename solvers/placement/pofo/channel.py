"""What a channel moves beside an op, and how long bytes take, in integers that stay within 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ....models.arrays import Integers
from ....models.machine import Machine

MOST = 2**61
"""Products of bytes and ns stay below it, so that sums of two fit into 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`nbytes` in each `ns`, behind a latency in ns."""

    nbytes: int
    ns: int
    latency: int

    def moved(self, duration: int) -> int:
        """Return the bytes that pass in so many ns."""
        return max(0, duration - self.latency) * self.nbytes // self.ns

    def all_moved(self, durations: Integers) -> Integers:
        """Return the bytes that pass in each of these times in ns."""
        return positive(durations - self.latency) * self.nbytes // self.ns

    def waits(self, nbytes: Integers) -> Integers:
        """Return the ns that these bytes take, 0 for none."""
        return (self.latency + -(-nbytes * self.ns // self.nbytes)) * (nbytes > 0)


def positive(values: Integers) -> Integers:
    """Return the values, 0 for those below."""
    return values * (values > 0)


def rate_of(machine: Machine, src: str, dst: str, most_bytes: int, most_ns: int) -> Rate | None:
    """Return the rate of a channel under its joint caps, rounded down where products would leave 64 bits.

    None if it is too slow for that.

    Parameters
    ----------
    most_bytes, most_ns
        The largest numbers that are multiplied with it.
    """
    channel = next(c for c in machine.channels if (c.src, c.dst) == (src, dst))
    caps = [g.bytes_per_s for g in machine.groups if (src, dst) in g.channels]
    exact = Fraction(min([channel.bytes_per_s, *caps]), 10**9)
    nbytes, ns = exact.numerator, exact.denominator
    while max(nbytes * most_ns, ns * most_bytes) >= MOST:
        nbytes, ns = nbytes // 2, -(-ns // 2)
    if not nbytes:
        return None
    return Rate(nbytes=nbytes, ns=ns, latency=channel.latency_ns)

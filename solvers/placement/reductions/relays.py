r"""A drive behind the host: planned as if it had channels to the device, carried out through the host.

The machine has tiers d (device), h (host) and x (drive), with channels between d and h, and between h and x,
but none between d and x. The *direct* machine has those as well, each as fast as the slower hop of its way; a
direct channel and the hop between h and d that it stands for carry no more together than that hop.

A plan of it is carried out so: a direct copy in :math:`[s, e)` is cut into pieces of at most `PIECE` bytes,
one after the other in equal parts of the time, of at most :math:`\Delta` ns each. A piece from x takes its
first hop :math:`\Delta` before its direct time, and its second one at that; a piece to x takes its first hop
at its direct time, and its second one :math:`\Delta` later. Behind the second hop it leaves h. All else keeps
its time, and then everything is put off by :math:`\Delta`, so that nothing begins before 0.

Hops of a channel take place at the times of the direct copies, or all of them :math:`\Delta` off, so that
rates are within those of the channels (what rounding adds is taken off beforehand, `ROUNDING`). A piece is in
h for its own time and :math:`\Delta`, so those that are there at once pass a direct channel within
:math:`3 \Delta`: at full rate three pieces in each direction, which the direct machine's host has less. That
slower ones need more, that a piece leaves x before it has come there, or passes h while h has the same bytes,
is not excluded; such a plan is invalid, which the verifier says.

Source: FlexGen (ICML 2023) and ZeRO-Infinity (SC 2021) read from the drive through buffers of the host; the
construction is this project's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....models.machine import Channel, ChannelGroup
from ....models.plan import Copy, Free, Plan
from ....models.problems.placement import Placement

PIECE = 2**26
"""Bytes of a piece at most."""

ROUNDING = 10_000
"""Of direct rates one part in so many is left for pieces of whole bytes in whole ns."""


def through_host(problem: Placement) -> tuple[Placement, Callable[[Plan], Plan]] | None:
    """Return the problem on the direct machine, and what makes a plan of it one of the first problem.

    None if the machine is another one, has joint caps or latencies, or copies move whole tensors; in periods,
    whose beginning pieces under way would cross.
    """
    machine = problem.machine
    rate = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
    if len(machine.tiers) != 3 or machine.groups or problem.whole or problem.periodic:
        return None
    device, host, drive = machine.tiers
    d, h, x = device.name, host.name, drive.name
    if rate.keys() != {(d, h), (h, d), (h, x), (x, h)}:
        return None
    if any(c.latency_ns or not c.shared for c in machine.channels):
        return None
    piece = min(PIECE, max((t.nbytes for t in problem.graph.tensors), default=0))
    if host.capacity is not None:
        host = replace(host, capacity=max(0, host.capacity - 6 * piece))
    channels, groups = list(machine.channels), []
    for direct, near, far in (((x, d), (h, d), (x, h)), ((d, x), (d, h), (h, x))):
        slower = min(rate[near], rate[far])
        channels.append(Channel(src=direct[0], dst=direct[1], bytes_per_s=_less(slower)))
        groups.append(
            ChannelGroup(
                name=f"{direct[0]} to {direct[1]}", channels=(direct, near), bytes_per_s=_less(rate[near])
            )
        )
    made = replace(machine, tiers=(device, host, drive), channels=tuple(channels), groups=tuple(groups))
    sizes = [t.nbytes for t in problem.graph.tensors]
    return replace(problem, machine=made), lambda plan: replace(
        _carried(plan, sizes, d, h, x), machine=machine
    )


def _less(rate: int) -> int:
    return max(1, rate - -(-rate // ROUNDING))


def _carried(plan: Plan, sizes: list[int], d: str, h: str, x: str) -> Plan:
    """Return a plan with hops for direct copies."""
    pieces = [p for c in plan.copies if {c.src, c.dst} == {d, x} for p in _pieces(c, sizes[c.tensor])]
    if not pieces:
        return plan
    ahead = max(p.end - p.start for p in pieces)

    def hop(c: Copy, src: str, dst: str, by: int) -> Copy:
        return Copy(c.tensor, src, dst, c.start + by, c.end + by, c.bytes)

    copies = [hop(c, c.src, c.dst, ahead) for c in plan.copies if {c.src, c.dst} != {d, x}]
    frees = [Free(f.tensor, f.tier, f.time + ahead, f.bytes) for f in plan.frees]
    for p in pieces:
        first = 0 if p.src == x else ahead
        copies += [hop(p, p.src, h, first), hop(p, h, p.dst, first + ahead)]
        frees.append(Free(p.tensor, h, p.end + first + ahead, p.bytes))
    return replace(
        plan,
        runs=tuple(replace(r, start=r.start + ahead, end=r.end + ahead) for r in plan.runs),
        copies=tuple(copies),
        frees=tuple(frees),
    )


def _pieces(copy: Copy, nbytes: int) -> list[Copy]:
    """Return a copy cut into pieces."""
    low, high = copy.bytes or (0, nbytes)
    many = max(1, -(-(high - low) // PIECE))
    times = [copy.start + (copy.end - copy.start) * j // many for j in range(many + 1)]
    ends = [low + (high - low) * j // many for j in range(many + 1)]
    return [
        Copy(copy.tensor, copy.src, copy.dst, times[j], times[j + 1], (ends[j], ends[j + 1]))
        for j in range(many)
    ]

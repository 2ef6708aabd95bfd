"""Graphs as one socket of a server with DRAM and Optane persistent memory (PMM) would run them.

Durations. The socket is taken to reach 105 GB/s of memory bandwidth (six channels of DDR4-2666, 128 GB/s raw)
and 1536 multiply-adds per ns in 32-bit floating point (24 cores, two units of 16 lanes, 2 GHz); both are
assumptions. An op whose duration is that of `lowtide.instances.transforms.roofline` gets

    max(1, ceil(bytes / 105), ceil(duration_ns * MULTIPLY_ADDS_PER_NS / 1536)),

bytes being those of its operands. That is the roofline of the socket: an op that the memory of the first
machine limits does at most 6.3 multiply-adds per byte; here arithmetic limits those that do 14.6 and more.

Modes. An op may write each of its tensors in DRAM or in PMM, which gives a mode for each subset of its
writes. Six interleaved modules were measured to deliver 39.4 GB/s to reads and 13.9 GB/s to writes
(Izraelevitz et al., "Basic performance measurements of the Intel Optane DC persistent memory module", 2019).
Using b bytes in PMM takes b / 39.4 or b / 13.9 ns instead of the b / 105 ns that the duration has in it.
Machine ``optane-node`` adds what reads take longer, the same for writes; what these take longer than reads,
1 / 13.9 - 1 / 39.4 ns a byte, is in the duration of the mode. An update in place counts as a write.

That is the time of ops that memory limits. Of others arithmetic hides a part. ``node=optane`` does not count
on that; ``node=optane-roofline`` gives ops that arithmetic limits a mode for each set of operands in PMM, a
table of kernel times as AutoTM profiles it, and lets them run for

    max(ceil(duration_ns * MULTIPLY_ADDS_PER_NS / 1536), bytes in DRAM / 105 + read in PMM / 39.4
        + written in PMM / 13.9)

ns: the duration of a mode is that less what the machine adds. For ops of more than `MOST` operands nothing is
hidden. Where a graph has several modes (algorithms), each of them is there for each set.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

from ...models.errors import InstanceError
from ...models.graph import Graph, Op
from ...models.units import SECOND
from .roofline import MULTIPLY_ADDS_PER_NS

MOST = 6
"""Operands, or writes, of which each subset has a mode; an op that writes more has them all in one tier."""

DRAM_BYTES_PER_NS, SOCKET_MULTIPLY_ADDS_PER_NS = 105, 1536
"""Of one socket: bytes per ns of its DRAM, and 32-bit multiply-adds per ns of its cores."""
READ_BYTES_PER_S, WRITE_BYTES_PER_S = 39_400_000_000, 13_900_000_000
"""Bytes per second that a socket reads from its PMM, and that it writes there."""
ADDED_BYTES_PER_S = 63_064_000_000
"""What machine ``optane-node`` adds for operands in PMM."""

DRAM, PMM = "dram", "pmm"


def on_optane(graph: Graph, *, roofline: bool = False) -> Graph:
    """Return the graph with durations of the socket, and modes that write PMM in place.

    Parameters
    ----------
    roofline
        Whether arithmetic hides slow accesses.

    Raises
    ------
    InstanceError
        If a mode names tiers already.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances.transforms.optane import on_optane
    >>> graph = on_optane(lt.load("gen:chain?n=3&seed=1"))
    >>> [mode.operands for mode in graph.ops[1].modes]
    [((1, 'dram'),), ((1, 'pmm'),)]
    """
    for k, op in enumerate(graph.ops):
        if any(mode.operands for mode in op.all_modes):
            raise InstanceError(f"optane, op {k} {op.name!r}: found a mode that names tiers, expected none")
    return replace(
        graph,
        name=f"{graph.name} on optane",
        ops=tuple(_op(graph, op, roofline) for op in graph.ops),
        provenance={**graph.provenance, "node": "optane-roofline" if roofline else "optane"},
        source=None,
    )


def _op(graph: Graph, op: Op, roofline: bool) -> Op:
    operands = sorted({*op.reads, *op.writes})
    size = {t: graph.tensors[t].nbytes for t in operands}
    arithmetic = [
        -(-m.duration_ns * MULTIPLY_ADDS_PER_NS // SOCKET_MULTIPLY_ADDS_PER_NS) for m in op.all_modes
    ]
    limits = max(arithmetic) * DRAM_BYTES_PER_NS > sum(size.values())
    hides = roofline and limits and len(operands) <= MOST
    named = operands if hides else op.writes
    if len(named) <= MOST:
        choices = list(product((DRAM, PMM), repeat=len(named)))
    else:
        choices = [(tier,) * len(named) for tier in (DRAM, PMM)]
    modes = []
    for mode, least in zip(op.all_modes, arithmetic, strict=True):
        for tiers in choices:
            slow = [t for t, tier in zip(named, tiers, strict=True) if tier == PMM]
            written = sum(size[t] for t in slow if t in op.writes)
            more = written * SECOND * (Fraction(1, WRITE_BYTES_PER_S) - Fraction(1, READ_BYTES_PER_S))
            duration = Fraction(max(1, -(-sum(size.values()) // DRAM_BYTES_PER_NS), least)) + more
            if hides:
                added = Fraction(sum(size[t] for t in slow) * SECOND, ADDED_BYTES_PER_S)
                memory = Fraction(sum(size.values()), DRAM_BYTES_PER_NS) + more
                duration = max(Fraction(1), memory, least - added)
            operands_in = tuple(zip(named, tiers, strict=True))
            modes.append(replace(mode, duration_ns=math.ceil(duration), operands=operands_in))
    if len(modes) == 1:
        return replace(op, duration_ns=modes[0].duration_ns, workspace=modes[0].workspace, modes=())
    return replace(op, duration_ns=modes[0].duration_ns, workspace=modes[0].workspace, modes=tuple(modes))

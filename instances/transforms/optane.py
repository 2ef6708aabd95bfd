"""Graphs as one socket of a server with DRAM and a slower memory would run them: Optane (PMM), or CXL.

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

``node=cxl`` and machine ``cxl-node`` are the same for a socket of 52 cores at 2 GHz, with eight channels of
DDR5-4800 (307 GB/s raw, of which it is taken to reach 252, the same part) and three modules of CXL memory.
Each was measured to deliver 17.8 GB/s to reads alone and 27.2 GB/s to as many reads as writes (Intel,
CacheLib, "OCP demo configuration", 2023): 53.4 GB/s for reads, and 40.8 GB/s for writes, half of the latter.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from ...models.errors import InstanceError
from ...models.graph import Graph, Op
from ...models.units import SECOND
from .roofline import MULTIPLY_ADDS_PER_NS

MOST = 6
"""Operands, or writes, of which each subset has a mode; an op that writes more has them all in one tier."""

DRAM = "dram"
DRAM_BYTES_PER_NS = 105
"""Bytes per ns of the DRAM of the Optane socket."""


class Socket(NamedTuple):
    """A socket: its name, that of its slow tier; bytes and multiply-adds per ns; bytes per s in that tier.

    ``added``: what its machine adds for operands in the slow tier.
    """

    name: str
    slow: str
    dram: int
    multiply_adds: int
    read: int
    write: int
    added: int


OPTANE = Socket(
    "optane", "pmm", DRAM_BYTES_PER_NS, 1536, 39_400_000_000, 13_900_000_000, added=63_064_000_000
)
CXL = Socket("cxl", "cxl", 252, 3328, 53_400_000_000, 40_800_000_000, added=67_759_000_000)


def on_optane(graph: Graph, *, roofline: bool = False, socket: Socket = OPTANE) -> Graph:
    """Return the graph with durations of the socket, and modes that write its slow memory in place.

    Parameters
    ----------
    roofline
        Whether arithmetic hides slow accesses.
    socket
        Which one.

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
            raise InstanceError(
                f"{socket.name}, op {k} {op.name!r}: found a mode that names tiers, expected none"
            )
    others = {key: value for key, value in graph.provenance.items() if key != "durations"}
    return replace(
        graph,
        name=f"{graph.name} on {socket.name}",
        ops=tuple(_op(graph, op, roofline, socket) for op in graph.ops),
        provenance={**others, "node": socket.name + "-roofline" * roofline},
        source=None,
    )


def _op(graph: Graph, op: Op, roofline: bool, socket: Socket) -> Op:
    operands = sorted({*op.reads, *op.writes})
    size = {t: graph.tensors[t].nbytes for t in operands}
    arithmetic = [-(-m.duration_ns * MULTIPLY_ADDS_PER_NS // socket.multiply_adds) for m in op.all_modes]
    limits = max(arithmetic) * socket.dram > sum(size.values())
    hides = roofline and limits and len(operands) <= MOST
    named = operands if hides else op.writes
    if len(named) <= MOST:
        choices = list(product((DRAM, socket.slow), repeat=len(named)))
    else:
        choices = [(tier,) * len(named) for tier in (DRAM, socket.slow)]
    modes = []
    for mode, least in zip(op.all_modes, arithmetic, strict=True):
        for tiers in choices:
            slow = [t for t, tier in zip(named, tiers, strict=True) if tier == socket.slow]
            written = sum(size[t] for t in slow if t in op.writes)
            more = Fraction(written * SECOND, socket.write) - Fraction(written * SECOND, socket.read)
            duration = Fraction(max(1, -(-sum(size.values()) // socket.dram), least)) + more
            if hides:
                added = Fraction(sum(size[t] for t in slow) * SECOND, socket.added)
                memory = Fraction(sum(size.values()), socket.dram) + more
                duration = max(Fraction(1), memory, least - added)
            operands_in = tuple(zip(named, tiers, strict=True))
            modes.append(replace(mode, duration_ns=math.ceil(duration), operands=operands_in, work=()))
    only = modes[0]
    # These are durations of the socket and of no other device: no work is left.
    return replace(
        op,
        duration_ns=only.duration_ns,
        workspace=only.workspace,
        modes=tuple(modes) if len(modes) > 1 else (),
        work=(),
    )

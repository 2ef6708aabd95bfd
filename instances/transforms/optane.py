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
Arithmetic hides nothing of that here, though it does hide some in real kernels.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op
from .roofline import MULTIPLY_ADDS_PER_NS

MOST_WRITES = 6
"""Of an op that gets a mode for each subset of them; one with more writes all of them in one tier."""

DRAM_BYTES_PER_NS, SOCKET_MULTIPLY_ADDS_PER_NS = 105, 1536
READ_BYTES_PER_S, WRITE_BYTES_PER_S = 39_400_000_000, 13_900_000_000
DRAM, PMM = "dram", "pmm"


def on_optane(graph: Graph) -> Graph:
    """Return the graph with durations of the socket, and modes that write PMM in place.

    Raises
    ------
    InstanceError
        If an op has several modes already, or one that names tiers.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances.transforms.optane import on_optane
    >>> graph = on_optane(lt.load("gen:chain?n=3&seed=1"))
    >>> [mode.operands for mode in graph.ops[1].modes]
    [((1, 'dram'),), ((1, 'pmm'),)]
    """
    for k, op in enumerate(graph.ops):
        if len(op.all_modes) > 1 or op.all_modes[0].operands:
            raise InstanceError(f"optane, op {k} {op.name!r}: found several modes or tiers, expected neither")
    return replace(
        graph,
        name=f"{graph.name} on optane",
        ops=tuple(_op(graph, op) for op in graph.ops),
        provenance={**graph.provenance, "node": "optane"},
        source=None,
    )


def _op(graph: Graph, op: Op) -> Op:
    size = [t.nbytes for t in graph.tensors]
    (mode,) = op.all_modes
    nbytes = sum(size[t] for t in {*op.reads, *op.writes})
    arithmetic = -(-mode.duration_ns * MULTIPLY_ADDS_PER_NS // SOCKET_MULTIPLY_ADDS_PER_NS)
    duration = max(1, -(-nbytes // DRAM_BYTES_PER_NS), arithmetic)
    if len(op.writes) <= MOST_WRITES:
        choices = list(product((DRAM, PMM), repeat=len(op.writes)))
    else:
        choices = [(tier,) * len(op.writes) for tier in (DRAM, PMM)]
    modes = []
    for tiers in choices:
        slow = sum(size[t] for t, tier in zip(op.writes, tiers, strict=True) if tier == PMM)
        longer = slow * (READ_BYTES_PER_S - WRITE_BYTES_PER_S) * 10**9
        modes.append(
            Mode(
                duration_ns=duration + -(-longer // (READ_BYTES_PER_S * WRITE_BYTES_PER_S)),
                workspace=mode.workspace,
                processors=mode.processors,
                operands=tuple(zip(op.writes, tiers, strict=True)),
            )
        )
    if len(modes) == 1:
        return replace(op, duration_ns=duration, workspace=mode.workspace, modes=())
    return replace(op, duration_ns=duration, workspace=mode.workspace, modes=tuple(modes))

"""A placement problem as the simulator of decisions sees it: one table of integers, and its absences.

An *absence* is where a tensor may be away from the device: the ops between two consecutive accesses ``first``
and ``next``, which do not count themselves. Its ends need no access: ``first`` is -1 in the absence between
the beginning and the first access of an initial tensor; ``next`` is `NEVER` behind the last access of a
tensor that must outlast the run (single runs: all final tensors; periods: final ones that are not initial,
which leave with the iteration's end). In a period, a persistent tensor (initial and final) has an absence
that goes round instead: ``next`` is then the first access of the next iteration, n or more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ....formulations.model import Tick, ticker
from ....models.arrays import Integers
from ....models.graph import Accounting, Graph
from ....models.machine import Machine
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ..reductions.modes import reference_modes
from ..reductions.recurring import as_inputs
from ..world.channels import SCALE, channel_back, channel_out, pairs
from ..world.chunks import coarse_enough, cut
from .tables import D

NEVER = 2**40
"""The access behind an absence that nobody ends."""
ENDLESS = 2**60
"""Capacity of a tier without limit."""
SHORTEST_GAP = 2
"""Ops from one access to the next: neighbours leave no op between them."""


@dataclass(frozen=True, eq=False)
class SimulatedProblem:
    """A problem as arrays.

    Attributes
    ----------
    problem
        What the arrays say: without tiers that the first one does not see, and with what is only read as
        inputs (`recurring`).
    restored
        Makes a plan of it one of the problem that was asked.
    table
        The rows of `tables`.
    sizes
        Numbers of ops, tensors, chunks, absences, groups.
    tensor
        Index in the graph of every tensor that is accessed.
    size
        Its bytes.
    persistent
        Whether it is initial and final.
    accesses
        Ops that access each, ascending, with 1 if they write it.
    starts
        Per tensor: bits of the tiers where it may be at time 0; 0 if it is not initial.
    absence_tensor, absence_first, absence_next
        Of each absence, by tensor, then by time.
    modes
        Number of each op's mode, whose workspace is in the table.
    duration
        ns per op, of these modes.
    idle
        Graph index and tier of tensors that outlive the run without any access: they stay in the outermost
        tier where they may start, and its capacity in the table is without them.
    tick
        Called now and then by what decides; raises `BuildTimeout` once the time is up.
    """

    problem: Placement
    restored: Callable[[Plan], Plan]
    table: Integers
    sizes: tuple[int, int, int, int, int]
    tensor: Integers
    size: Integers
    persistent: NDArray[np.bool_]
    accesses: list[list[tuple[int, int]]]
    starts: Integers
    absence_tensor: Integers
    absence_first: Integers
    absence_next: Integers
    modes: Integers
    duration: Integers
    idle: tuple[tuple[int, int], ...]
    tick: Tick

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.problem.graph

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.problem.machine

    @property
    def memory(self) -> int:
        """Bytes of the device for tensors that are accessed."""
        return self.capacity(0)

    def capacity(self, tier: int) -> int:
        """Return the bytes of a tier for tensors that are accessed."""
        return int(self.table[D.capacity, tier])

    @property
    def rates(self) -> Integers:
        """The rate of each channel in kB/s; 0 if it is not there."""
        return self.table[D.rate, :4]

    @property
    def caps(self) -> Integers:
        """A row for each joint cap: kB/s, and whether each channel is under it."""
        return self.table[D.caps, : 5 * self.sizes[4]].reshape(-1, 5)

    @property
    def workspace(self) -> Integers:
        """Bytes of workspace of each op."""
        return self.table[D.workspace, : self.ops]

    @property
    def births(self) -> Integers:
        """Bytes of what each op creates."""
        return self.table[D.births, : self.ops]

    @property
    def owner(self) -> Integers:
        """The tensor of each chunk."""
        return self.table[D.owner, : self.sizes[2]]

    def operands(self, op: int) -> list[tuple[int, bool]]:
        """Return each tensor that an op accesses, and whether it dies as the op starts."""
        low, high = self.table[D.first_operand, op : op + 2]
        rows = self.table[[D.operand, D.operand_read], low:high].tolist()
        return [(i, read == 2) for i, read in zip(*rows, strict=True)]

    @property
    def ops(self) -> int:
        """How many ops."""
        return self.sizes[0]

    @cached_property
    def outer(self) -> tuple[int, ...]:
        """Numbers of the outer tiers with a channel each way, nearest first."""
        return tuple(x for x in (1, 2) if self.rates[channel_out(x)] > 0 and self.rates[channel_back(x)] > 0)

    @cached_property
    def absence_size(self) -> Integers:
        """Bytes of each absence's tensor."""
        return self.size[self.absence_tensor]

    @cached_property
    def clock(self) -> Integers:
        """The ideal start time in ns of every op of two iterations, and the end: 2 n + 1 entries."""
        twice = np.concatenate((self.duration, self.duration))
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(twice)))

    @cached_property
    def live(self) -> Integers:
        """Bytes on the device at each op if all that may start there does, and nothing leaves.

        While the op runs; under ``replace`` or just before, when what it only reads is still there.
        """
        n = self.ops
        before, change = np.zeros((2, n + 1), dtype=np.int64)
        for i, uses in enumerate(self.accesses):
            tensor = self.graph.tensors[int(self.tensor[i])]
            first, (last, written) = uses[0][0], uses[-1]
            low = 0 if self.starts[i] & 1 else first
            high = n if tensor.final else last + 1
            change[low] += self.size[i]
            change[high - (self.early and not tensor.final and not written)] -= self.size[i]
            before[low + (not tensor.initial)] += self.size[i]
            before[high] -= self.size[i]
        live: Integers = np.cumsum(change)[:n] + self.workspace
        return np.maximum(live, np.cumsum(before)[:n]) if self.early else live

    @property
    def early(self) -> bool:
        """Whether what an op only reads may go at its start."""
        return self.graph.accounting is Accounting.REPLACE

    @cached_property
    def opening(self) -> Integers:
        """The anchor (`simulator`) from which on each absence's tensor may be away."""
        wrote = [dict(uses) for uses in self.accesses]
        reads = [
            bool(self.early and first >= 0 and not wrote[i][first])
            for i, first in zip(self.absence_tensor.tolist(), self.absence_first.tolist(), strict=True)
        ]
        return 2 * (self.absence_first + 1) - np.array(reads, dtype=np.int64)

    def in_modes(self, chosen: Integers) -> SimulatedProblem:
        """Return the problem with ops in other modes."""
        table = self.table.copy()
        return replace(self, table=table, modes=chosen, duration=_set_modes(table, self.graph, chosen))

    def away_ops(self, absence: int, back: int) -> list[tuple[int, int]]:
        """Return the ranges of ops at which an absence's tensor is away if it is back for op `back`."""
        n = self.ops
        low, high = int(self.absence_first[absence]) + 1, min(back, int(self.absence_next[absence]))
        if high >= NEVER:
            high = n
        spans = [(low, high)] if high <= n else [(low, n), (0, high - n)]
        return [(a, b) for a, b in spans if a < b]

    def transfer_ns(self, nbytes: int, channel: int) -> int:
        """Return the ns that a copy takes on a channel of its own (numbers of `tables`)."""
        rate = int(self.rates[channel])
        return int(self.table[D.latency, channel]) + -(-nbytes * SCALE // max(rate, 1))


def simulated_problem(
    problem: Placement, chunk: int | None = None, expired: Callable[[], bool] = lambda: False
) -> SimulatedProblem:
    """Return the arrays of a problem.

    Parameters
    ----------
    problem
        A single run or a period.
    chunk
        Most bytes per copy (more, if that were too many copies); None, or a problem of whole tensors: tensors
        move whole.
    expired
        Whether the time is up: then `tick` raises.
    """
    problem, restored = as_inputs(problem)
    graph, n = problem.graph, len(problem.graph.ops)
    accesses: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            accesses[t].append((k, int(t in op.writes)))
    kept = [t for t, uses in enumerate(accesses) if uses]
    kept_accesses = [accesses[t] for t in kept]
    tensors = [graph.tensors[t] for t in kept]
    size = np.array([x.nbytes for x in tensors], dtype=np.int64)
    starts = np.array([_start_bits(problem, t) for t in kept], dtype=np.int64)
    persistent = np.array([x.initial and x.final for x in tensors], dtype=np.bool_)
    absences = _absences(problem, kept, kept_accesses)
    most = int(size.max(initial=1)) or 1
    chunk = coarse_enough(problem, most if chunk is None or problem.whole else chunk)
    chunks = cut(size, chunk)
    uses = sum(len(x) for x in kept_accesses)
    groups = problem.machine.groups
    sizes = (n, len(kept), len(chunks.owner), len(absences), len(groups))
    width = (
        max(n, len(kept), sizes[2], len(absences), uses, 2 * len(absences) + 4 * len(kept), 5 * len(groups))
        + 64
    )
    table = np.zeros((len(D), width), dtype=np.int64)
    modes = np.array(reference_modes(problem), dtype=np.int64)
    duration = _set_modes(table, graph, modes)
    by_op: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
    early = graph.accounting is Accounting.REPLACE
    first_use = 0
    for i, accessed in enumerate(kept_accesses):
        table[D.first_use, i] = first_use
        for k, w in accessed:
            table[D.use, first_use] = k
            first_use += 1
            dies = k == accessed[-1][0] and not tensors[i].final
            by_op[k].append((i, w, (1 + dies) * (early and not w)))
        tensor = tensors[i]
        if not tensor.initial:
            table[D.births, accessed[0][0]] += size[i]
        if not tensor.final and not (early and not accessed[-1][1]):
            table[D.deaths, accessed[-1][0]] += size[i]
    table[D.first_use, len(kept)] = first_use
    at = 0
    for k, operands in enumerate(by_op):
        table[D.first_operand, k] = at
        for operand in operands:
            table[[D.operand, D.operand_write, D.operand_read], at] = operand
            table[D.early, k] += operand[2] > 0
            at += 1
    table[D.first_operand, n] = at
    table[D.size, : len(kept)] = size
    table[D.persistent, : len(kept)] = persistent
    table[D.lasting, : len(kept)] = [x.final and (not problem.periodic or not x.initial) for x in tensors]
    table[D.initial, : len(kept)] = [x.initial for x in tensors]
    anywhere = (1 << len(problem.machine.tiers)) - 1
    restricted = persistent & (starts != anywhere) & problem.periodic
    table[D.home, : len(kept)] = np.where(restricted, starts, 0)
    table[D.first_chunk, : len(kept) + 1] = chunks.first
    table[[D.owner, D.chunk_bytes], : len(chunks.owner)] = chunks.owner, chunks.length
    for g, (i, first, after) in enumerate(absences):
        table[D.absence_tensor, g], table[D.absence_first, g], table[D.absence_next, g] = i, first, after
    _fill_machine(table, problem.machine)
    idle = [
        (t, _start_bits(problem, t).bit_length() - 1)
        for t, x in enumerate(graph.tensors)
        if x.initial and x.final and not accesses[t]
    ]
    for t, tier in idle:
        table[D.capacity, tier] -= graph.tensors[t].nbytes
    rows = np.array(absences, dtype=np.int64).reshape(-1, 3)
    return SimulatedProblem(
        problem=problem,
        restored=restored,
        table=table,
        sizes=sizes,
        tensor=np.array(kept, dtype=np.int64),
        size=size,
        persistent=persistent,
        accesses=kept_accesses,
        starts=starts,
        absence_tensor=rows[:, 0].copy(),
        absence_first=rows[:, 1].copy(),
        absence_next=rows[:, 2].copy(),
        modes=modes,
        duration=duration,
        idle=tuple(idle),
        tick=ticker(expired),
    )


def _set_modes(table: Integers, graph: Graph, chosen: Integers) -> Integers:
    """Write durations and workspaces of modes into a table; return the durations."""
    modes = [op.all_modes[m] for op, m in zip(graph.ops, chosen.tolist(), strict=True)]
    duration = np.array([mode.duration_ns for mode in modes], dtype=np.int64)
    table[D.duration, : len(modes)] = duration
    table[D.workspace, : len(modes)] = [mode.workspace for mode in modes]
    return duration


def _start_bits(problem: Placement, t: int) -> int:
    """Return the bits of the tiers where a tensor of the graph may be at time 0."""
    tensor = problem.graph.tensors[t]
    if not tensor.initial:
        return 0
    names = [x.name for x in problem.machine.tiers]
    return sum(1 << names.index(tier) for tier in problem.may_start(tensor.kind))


def _absences(
    problem: Placement, kept: list[int], accesses: list[list[tuple[int, int]]]
) -> list[tuple[int, int, int]]:
    """Return tensor, op before, op after of every absence of tensors that have bytes."""
    n, absences = len(problem.graph.ops), []
    for i, uses in enumerate(accesses):
        tensor = problem.graph.tensors[kept[i]]
        if not tensor.nbytes:
            continue
        ops = [k for k, _ in uses]
        round_trip = problem.periodic and tensor.initial and tensor.final
        if tensor.initial and not round_trip:
            absences.append((i, -1, ops[0]))
        absences += [(i, a, b) for a, b in pairwise(ops) if b - a >= SHORTEST_GAP]
        if round_trip:
            absences.append((i, ops[-1], ops[0] + n))
        elif tensor.final and (not problem.periodic or not tensor.initial) and ops[-1] < n - 1:
            absences.append((i, ops[-1], NEVER))
    return absences


def _fill_machine(table: Integers, machine: Machine) -> None:
    """Write capacities, channels and groups; rates in kB/s, a channel's not above its groups'."""
    names = [t.name for t in machine.tiers]
    for k, tier in enumerate(machine.tiers):
        table[D.capacity, k] = ENDLESS if tier.capacity is None else tier.capacity
    ends = pairs(names)
    for channel in machine.channels:
        pair = (channel.src, channel.dst)
        if pair in ends:
            k = ends.index(pair)
            caps = [g.bytes_per_s for g in machine.groups if pair in g.channels]
            table[D.rate, k] = min([channel.bytes_per_s, *caps]) // 1000
            table[D.latency, k] = channel.latency_ns
    for g, group in enumerate(machine.groups):
        table[D.caps, 5 * g] = group.bytes_per_s // 1000
        for k, joined in enumerate(ends):
            table[D.caps, 5 * g + 1 + k] = joined in group.channels

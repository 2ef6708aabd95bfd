"""`modnn`: what an allocation lacks in a best-fit pool is offloaded, the fewest bytes that make it succeed.

Source: Chen, Chen and Hu, moDNN: Memory Optimal DNN Training on GPUs, DATE 2018; the pool after what AutoTM's
repository calls moDNN's allocator (utils/allocator.jl).

Steps. One iteration is carried out without stalls, on a pool of addresses.

1. An op's missing operands, what it creates and its workspace are allocated by best fit: the tightest hole
   that is large enough; holes that touch are one. An op with several modes, a convolution with its
   algorithms, runs in the fastest one whose workspace finds a hole; if none does, in that of least workspace.
2. Where an allocation fails, the tensors that the op does not use are candidates. Those leave whose release
   makes it succeed with the fewest bytes: neighbours by address, with the holes between; of equal bytes
   those whose earliest next use is furthest. Each is copied out right behind its last use, beside other ops.
3. Where no such set helps, the pool is too fragmented: all candidates are offloaded, and it starts afresh
   with the op's operands, one after the other.
4. As soon as the stream of returns is free, what is used next of all that is away is prefetched, if there is
   a hole and until its use 15 % of the memory stay free. Else it returns when its op is due.

In a period the pool begins with what it holds at the end. It fails exactly if one op's operands and workspace
do not fit (under ``replace`` with what it creates in the place of what dies).

Abstracted: sub-batches (a graph has its batch); plans have no addresses, so the pool decides who leaves, not
where it lies. A prefetched tensor that is in the way is not prefetched after all. Prefetches reckon with the
least workspace of the ops ahead. Inferred: the ties of step 2.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import partial

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..reductions.modes import runnable, smallest_modes
from ..simulator.problem import SimulatedProblem
from ..simulator.simulator import Decisions
from .follow import Candidates, DoesNotFit, follow
from .loads import forced_away, swap
from .pool import WORKSPACE, Pool

FILLED = 85
"""Percent of the memory that prefetches fill."""


def solve_modnn(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide)


class PoolRun:
    """An iteration on the pool: who is there, who is away in which absence, and back at which op."""

    def __init__(self, case: SimulatedProblem, there: list[int]) -> None:
        self.case, self.pool = case, Pool(case.memory)
        self.modes = np.array(smallest_modes(case.problem), dtype=np.int64)
        self.load = case.in_modes(self.modes).live.copy()
        self.away: dict[int, int] = {}
        self.absent: dict[int, int] = {}
        self.stream = 0
        self.uses = [[k for k, _ in some] for some in case.accesses]
        self.of: dict[int, list[int]] = {}
        for g, i in enumerate(case.absence_tensor.tolist()):
            self.of.setdefault(i, []).append(g)
        present = np.flatnonzero((case.starts > 0) & (case.size > 0)).tolist()
        for i in sorted(present, key=lambda i: (case.accesses[i][0][0], i)):
            if i not in there or not self.pool.place(i, int(case.size[i])):
                self.leave(i, -1)

    def leave(self, i: int, k: int) -> None:
        """Let a tensor be away at op k (-1: at the beginning), until its next use for the time being."""
        case, n = self.case, self.case.ops
        self.pool.drop(i)
        if i not in self.absent:
            self.absent[i] = next(
                g
                for g in self.of[i]
                for low, high in ((int(case.absence_first[g]), int(case.absence_next[g])),)
                if low < k < high or k < high - n < n or (k < 0 and low < 0)
            )
        g = self.absent[i]
        self.away[g] = int(case.absence_next[g])
        self.load[max(k, 0) : self.use(g, k)] -= case.size[i]

    def use(self, g: int, k: int) -> int:
        """Return the op behind an absence, seen from op k; the end if it is not in this iteration."""
        n, after = self.case.ops, int(self.case.absence_next[g])
        return after - n if n <= after < 2 * n and k < after - n else min(after, n)

    def enter(self, i: int, k: int) -> None:
        """Let a tensor that is away return at op k."""
        case, g = self.case, self.absent[i]
        self.away[g] = k + case.ops * (k <= case.absence_first[g])
        self.stream = max(self.stream, int(case.clock[k])) + case.transfer_ns(
            int(case.size[i]), case.outer[0] + 1
        )

    def prefetch(self, k: int) -> None:
        """Let what is used next return beside op k, while the stream is free (step 4)."""
        case, most = self.case, self.case.memory * FILLED // 100
        if self.stream >= case.clock[k + 1] or self.load[k] >= most:
            return
        waiting = [(self.use(g, k), i) for i, g in self.absent.items() if not self.returns(i)]
        for use, i in sorted(waiting):
            size = int(case.size[i])
            if self.stream >= case.clock[k + 1] or use >= case.ops or use <= k:
                return
            if self.load[k:use].max() + size > most or not self.pool.place(i, size):
                return
            self.load[k:use] += size
            self.enter(i, k)

    def returns(self, i: int) -> bool:
        """Return whether a tensor that was away is on its way, or there."""
        g = self.absent[i]
        return self.away[g] < int(self.case.absence_next[g])

    def allocate(self, owner: int, nbytes: int, k: int, used: set[int]) -> None:
        """Place a block for op k, which uses some tensors, whatever has to leave (steps 1 to 3)."""
        if not nbytes or self.pool.place(owner, nbytes):
            return
        chosen = self.pool.cheapest(nbytes, used, partial(self.next_use, k=k))
        rest = [i for _, _, i in self.pool.blocks if i not in used]
        for i in rest if chosen is None else chosen:
            self.leave(i, k)
        if chosen is None:
            self.pool.restart()
        if not self.pool.place(owner, nbytes):
            name = self.case.graph.ops[k].name
            raise DoesNotFit(f"op {k} {name!r} does not fit on an empty pool", self.decisions())

    def choose_mode(self, k: int, used: set[int]) -> None:
        """Place the workspace of the fastest mode of op k that finds a hole, else the least (step 1)."""
        for m, mode in sorted(runnable(self.case.problem, k), key=lambda way: way[1].duration_ns):
            if not mode.workspace or self.pool.place(WORKSPACE, mode.workspace):
                self.modes[k] = m
                return
        self.allocate(WORKSPACE, self.case.graph.ops[k].all_modes[self.modes[k]].workspace, k, used)

    def next_use(self, i: int, k: int) -> int:
        """Return the op of a tensor's next access behind op k, counted on over iterations."""
        uses = self.uses[i]
        at = bisect_right(uses, k)
        return uses[at] if at < len(uses) else uses[0] + self.case.ops

    def carry_out(self) -> list[int]:
        """Carry out all ops; return who is there at the end."""
        case = self.case
        for k in range(case.ops):
            case.tick()
            self.prefetch(k)
            operands = case.operands(k)
            there = {i for _, _, i in self.pool.blocks}
            known = [i for i, _ in operands if case.accesses[i][0][0] < k or case.starts[i]]
            used = {*(i for i, _ in operands), WORKSPACE}
            for i in known:
                if i not in there and case.size[i]:
                    self.allocate(i, int(case.size[i]), k, used)
                    self.enter(i, k)
            for i, _ in operands:
                self.absent.pop(i, None)
            for i, dies in operands:
                if dies:
                    self.pool.drop(i)
            for i, _ in operands:
                if i not in known:
                    self.allocate(i, int(case.size[i]), k, used)
            self.choose_mode(k, used)
            self.pool.drop(WORKSPACE)
            for i, _ in operands:
                if case.accesses[i][-1][0] == k and not case.graph.tensors[int(case.tensor[i])].final:
                    self.pool.drop(i)
        return [i for _, _, i in self.pool.blocks]

    def decisions(self) -> Decisions:
        """Return what was decided so far."""
        case = self.case
        back = 2 * case.absence_next
        for g, op in self.away.items():
            back[g] = 2 * op
        return replace(swap(case, np.array(list(self.away), dtype=np.int64), back), modes=self.modes)


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    forced = set(case.absence_tensor[forced_away(case)].tolist())
    there = [i for i in np.flatnonzero(case.starts & 1).tolist() if i not in forced]
    run = PoolRun(case, there)
    end = run.carry_out()
    if case.problem.periodic:
        run = PoolRun(case, [i for i in there if i in end or not case.persistent[i]])
        run.carry_out()
    yield "", run.decisions()

"""`sentinel`: a reserve for short-lived tensors; others move at the bounds of intervals of layers.

Source: Ren, Luo, Wu, Zhang, Jeon and Li, Sentinel: Efficient Tensor Migration and Allocation on Heterogeneous
Memory Systems for Deep Learning, HPCA 2021.

Steps.

1. A tensor that lives within one layer (`layers`) is short-lived. Short-lived ones never move; the reserve is
   the most bytes that they, and workspaces, have at once.
2. The layers are divided into intervals of equally many. At the beginning of an interval, long-lived tensors
   leave that neither it nor the next one uses; and those that only it does not use, in the order of their
   next use from the furthest on, while what the interval keeps exceeds the device less the reserve.
3. At the beginning of the interval before the one that uses it again, a tensor is asked back, the most often
   accessed first, as long as it fits beside the others into the device less the reserve until its use.
   What does not, and what left for one interval, comes when it is due, and the op waits.
4. What lacks room when its op is due evicts what is used furthest ahead.
5. Lengths of intervals: of those into which the layers divide, 1, 2, 3, ... intervals, the first, by which
   nothing moves ahead, and those for which what stays and what moves at a bound fits into the device less the
   reserve, and the moves take no longer than the interval; if there is none of these, all. Each is tried, and
   the fastest plan is taken ("test and trial").

It fails exactly if the device is smaller than the reserve.

Abstracted: profiling by page faults, one step in which tensors have pages of their own; pages that tensors of
like lifetimes share (tensors move whole). Operands must be on the device, as on a GPU; slow memory that ops
use in place, where unfinished moves may be left alone, is not served. Inferred: the formulas of step 5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions
from .follow import Candidates, DoesNotFit, follow
from .layers import first_ops, layers
from .loads import forced_away, nothing_moves, swap


def solve_sentinel(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide)


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions, for each length of intervals (step 5)."""
    numbers = layers(case)
    short = short_lived(case, numbers)
    reserve = int(short.max())
    if reserve > case.memory:
        reason = f"short-lived tensors need {reserve} bytes, the device has {case.memory}"
        raise DoesNotFit(reason, nothing_moves(case))
    count = int(numbers[-1]) + 1
    lengths = sorted({-(-count // parts) for parts in range(1, count + 1)}, reverse=True)
    room, load = case.memory - reserve, case.live - short
    yield f"{count} layers per interval", Intervals(case, numbers // count, room, load).decisions()
    plans = [(length, Intervals(case, numbers // length, room, load)) for length in lengths[1:]]
    for length, plan in [pair for pair in plans if pair[1].in_time()] or plans:
        yield f"{length} layers per interval", plan.decisions()


def short_lived(case: SimulatedProblem, numbers: Integers) -> Integers:
    """Return the bytes of short-lived tensors and workspace on the device at each op, or just before."""
    during = case.workspace.copy()
    before = np.zeros_like(during)
    for i, some in enumerate(case.accesses):
        tensor = case.graph.tensors[int(case.tensor[i])]
        (first, _), (last, written) = some[0], some[-1]
        if numbers[first] == numbers[last] and not tensor.initial and not tensor.final:
            during[first : last + 1 - (case.early and not written)] += case.size[i]
            before[first + 1 : last + 1] += case.size[i]
    return np.maximum(during, before)


class Intervals:
    """What leaves and returns at the bounds of intervals of layers.

    Parameters
    ----------
    case
        Of the policy.
    numbers
        The interval of each op.
    room
        Bytes of the device less the reserve.
    load
        Bytes of long-lived tensors on the device at each op if nothing leaves.
    """

    def __init__(self, case: SimulatedProblem, numbers: Integers, room: int, load: Integers) -> None:
        n, count = case.ops, int(numbers[-1]) + 1
        self.case, self.room, self.load = case, room, load.copy()
        starts = first_ops(numbers)
        self.starts = np.concatenate((starts, starts + n, [2 * n]))
        twice = np.concatenate((numbers, numbers + count))
        before = np.where(case.absence_first < 0, -1, numbers[case.absence_first])
        self.after = np.where(
            case.absence_next >= NEVER, 2 * count, twice[case.absence_next % NEVER % (2 * n)]
        )
        self.ends = np.where(case.absence_next >= NEVER, n, case.absence_next)
        self.out = self.starts[before + 1]
        self.back = np.full(len(before), -1, dtype=np.int64)
        forced = np.zeros(len(before), dtype=np.bool_)
        forced[forced_away(case)] = True
        lengths = np.where((case.absence_next >= NEVER) & (before + 1 >= count), 0, self.after - before)
        self.away = np.where(forced, -1, lengths >= 3)
        for g in np.flatnonzero(self.away > 0).tolist():
            self.add(g, int(self.out[g]), int(self.ends[g]), -1)
        self.leave_for_one(np.flatnonzero((lengths == 2) & ~forced))
        self.ask_back()

    def add(self, g: int, low: int, high: int, sign: int) -> None:
        """Add the bytes of an absence's tensor, times `sign`, from one op to another."""
        self.load[np.arange(low, high) % self.case.ops] += sign * self.case.absence_size[g]

    def leave_for_one(self, some: Integers) -> None:
        """Let tensors leave that one interval alone does not use, where it lacks room (step 2)."""
        by_use = sorted(some.tolist(), key=lambda g: (int(self.out[g]), -int(self.ends[g]), g))
        for g in by_use:
            self.case.tick()
            low = int(self.out[g])
            high = int(self.starts[np.searchsorted(self.starts, low) + 1])
            if self.load[np.arange(low, high) % self.case.ops].max() > self.room:
                self.away[g] = 1
                self.add(g, low, int(self.ends[g]), -1)

    def ask_back(self) -> None:
        """Let tensors return an interval ahead, as long as they fit (step 3)."""
        case = self.case
        some = np.flatnonzero((self.away != 0) & (case.absence_next < NEVER)).tolist()
        uses = [len(case.accesses[i]) for i in case.absence_tensor.tolist()]
        for g in sorted(some, key=lambda g: (int(self.after[g]), -uses[g], g)):
            case.tick()
            low, high = int(self.starts[max(int(self.after[g]) - 1, 0)]), int(self.ends[g])
            if low >= high or (low <= self.out[g] and self.away[g] > 0):
                continue
            if self.load[np.arange(low, high) % case.ops].max() + case.absence_size[g] <= self.room:
                self.add(g, low, high, 1)
                self.back[g] = 2 * low

    def in_time(self) -> bool:
        """Return whether what stays and what moves at bounds fits, and moves end with intervals (step 5)."""
        case, near = self.case, self.case.outer[0]
        inwards = self.back >= 0
        if self.load.max() > self.room:
            return False
        for moved, at, channel in (
            (self.away > 0, self.out, near - 1),
            (inwards, self.back // 2, near + 1),
        ):
            for start in np.unique(at[moved]).tolist():
                sizes = case.absence_size[moved & (at == start)].tolist()
                end = int(self.starts[np.searchsorted(self.starts, start) + 1])
                long = sum(case.transfer_ns(size, channel) for size in sizes)
                if sum(sizes) > self.room or long > case.clock[end] - case.clock[start]:
                    return False
        return True

    def decisions(self) -> Decisions:
        """Return them."""
        base = swap(self.case, np.flatnonzero(self.away > 0), self.back)
        out = np.where(self.away > 0, np.maximum(2 * self.out, base.out), base.out)
        return replace(base, out=out, victim=tables.FURTHEST, eager=True)

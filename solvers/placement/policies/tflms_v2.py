"""`tflms-v2`: far consumers get tensors back from the host; distances found by searches on a count of bytes.

Source: the second version of TFLMS (IBM/tensorflow-large-model-support, branch tflmsv2; Le et al., arXiv
1807.02037, 2018).

Steps. A consumer is *far* if it is more than `threshold` ops behind the producer.

1. A tensor leaves behind its last consumer that is not far. A swap-in serves the far consumers that follow
   each other within `group` ops; between others the tensor is away again.
2. A swap-in for op b starts behind the last op that b depends on, `ahead` ops before b or up to 10 more;
   without one behind the tenth.
3. *Mode* 1 waits for swap-outs, mode 2 for swap-ins (these then start with the op that needs them), mode 3
   for both.
4. Where everything fits, nothing is rewritten. Else the parameters are *tuned* on a count of bytes without
   times: 0.9 of the device less the persistent tensors; a tensor that leaves counts one op longer unless its
   swap-out is waited for; one that returns counts from the op behind its control op.

   a. With threshold 1, ahead 1 and group 0, the least mode that passes. Only in mode 0 the largest threshold
      that passes is then searched for, by bisection.
   b. The largest `ahead` that passes, by bisection (modes 0 and 1).
   c. For `group` all ops; if that does not pass, the largest that passes, by bisection.

It fails exactly if threshold 1 does not pass in mode 3. Time plays no part.

Every count rises with threshold, ahead and group, so that a bisection finds what a scan of all values does.
Abstracted: levels are ops of the reference order, one a level; tensors of rank 0 and 1, which it never swaps,
since tensors here have no rank. Inferred: what waiting changes in the count, and where a swap-in starts that
finds no control op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions
from .follow import Candidates, DoesNotFit, follow
from .loads import nothing_moves, swap
from .tflms_v1 import DataFlow

SHARE = 9
"""Tenths of the device that the tuning fills."""
BACK = 10
"""Ops that the search for a control op goes back."""
WAIT_OUT, WAIT_IN = 1, 2
"""Bits of the option ``mode``: whether copies out, and copies in, wait for a control op."""
FAILS = "no parameters pass: threshold 1 in mode 3 needs more than 0.9 of the device"


@dataclass(frozen=True)
class Parameters:
    """What is tuned."""

    threshold: int = 1
    ahead: int = 1
    group: int = 0
    mode: int = 0


def solve_tflms_v2(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide, first=True)


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    yield "nothing swapped", nothing_moves(case)
    rewriting = Rewriting(case)
    best = tuned(rewriting.passes, case.ops)
    if best is None:
        raise DoesNotFit(FAILS, rewriting.decisions(Parameters(mode=WAIT_OUT | WAIT_IN)))
    words = f"threshold {best.threshold}, ahead {best.ahead}, group {best.group}, mode {best.mode}"
    yield words, rewriting.decisions(best)


def tuned(passes: Callable[[Parameters], bool], most: int) -> Parameters | None:
    """Return the parameters that the searches find, None if none pass (step 4)."""
    least = next((p for mode in range(4) if passes(p := Parameters(mode=mode))), None)
    if least is None:
        return None

    def raised(p: Parameters, name: str, low: int) -> Parameters:
        return replace(p, **{name: largest(low, most, lambda x: passes(replace(p, **{name: x})))})

    best = least
    if not least.mode:
        best = raised(best, "threshold", 1)
    if not least.mode & WAIT_IN:
        best = raised(best, "ahead", 1)
    return raised(best, "group", 0)


def largest(low: int, high: int, passes: Callable[[int], bool]) -> int:
    """Return the largest number up to `high` that passes, as `low` does and all below one that does."""
    if passes(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


class Rewriting:
    """What the parameters make of a problem."""

    def __init__(self, case: SimulatedProblem) -> None:
        self.case, self.flow = case, DataFlow(case)
        plain = (
            ~case.persistent[case.absence_tensor] & (case.absence_first >= 0) & (case.absence_next < NEVER)
        )
        self.absences = np.flatnonzero(plain)
        self.first, self.after = case.absence_first[plain], case.absence_next[plain]
        self.size = case.absence_size[plain]
        makers = [case.accesses[i][0][0] for i in case.absence_tensor[plain].tolist()]
        self.maker = np.array(makers, dtype=np.int64)
        weights = int(case.size[case.persistent].sum())
        self.load = case.live - weights
        self.budget = case.memory * SHARE // 10 - weights

    def away(self, p: Parameters) -> Integers:
        """Return which absences are used (step 1)."""
        far = self.after - self.maker > p.threshold
        first_far = self.first - self.maker <= p.threshold
        return np.flatnonzero(far & (first_far | (self.after - self.first > p.group)))

    def returns(self, p: Parameters, absences: Integers) -> Integers:
        """Return the op from which on each swap-in counts (step 2)."""
        if p.mode & WAIT_IN:
            return self.after[absences]
        limits = (self.after[absences] - p.ahead).tolist()
        control = [
            max(self.flow.last_above(op, limit), limit - BACK)
            for op, limit in zip(self.after[absences].tolist(), limits, strict=True)
        ]
        return np.maximum(np.array(control, dtype=np.int64), self.first[absences]) + 1

    def passes(self, p: Parameters) -> bool:
        """Return whether the count of bytes stays within the budget (step 4)."""
        self.case.tick()
        absences = self.away(p)
        low = self.first[absences] + (1 if p.mode & WAIT_OUT else 2)
        high = np.maximum(self.returns(p, absences), low)
        change = np.zeros(self.case.ops + 2, dtype=np.int64)
        np.subtract.at(change, low, self.size[absences])
        np.add.at(change, high, self.size[absences])
        return int((self.load + np.cumsum(change)[: self.case.ops]).max()) <= self.budget

    def decisions(self, p: Parameters) -> Decisions:
        """Return what the ops and copies of the rewritten graph do."""
        case, absences = self.case, self.away(p)
        back = np.full(len(case.absence_tensor), 0, dtype=np.int64)
        back[self.absences[absences]] = 2 * self.returns(p, absences)
        barrier = np.zeros(case.ops, dtype=np.int64)
        if p.mode & WAIT_OUT:
            barrier[self.first[absences] + 1] = 1
        return replace(swap(case, self.absences[absences], back), barrier=barrier)

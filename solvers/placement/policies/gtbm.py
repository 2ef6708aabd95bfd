"""`gtbm`: activations leave right behind their use, and return at most two convolutions ahead of the next.

Source: from notes on it alone; the paper is probably Yang and Cheng, Efficient GPU Memory Management for
Nonlinear DNNs, HPDC 2020.

Steps.

1. Where everything fits, nothing moves.
2. Else every activation that the backward pass uses again is copied out behind its last forward use, on a
   stream of its own; no op waits for a copy.
3. It is asked back at the start of the second convolution before its next use (`window`), not earlier: what
   comes earlier only takes room. Without so many, as soon as it has left.

Abstracted: the pool's three regions (tensors of one reference low, temporary ones high, reused ones between),
which matter for fragmentation. In graphs without convolutions products of matrices count, without these the
ops of mean duration or more. Inferred: that copies out wait for no layer, and step 1.
"""

from __future__ import annotations

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import SimulatedProblem
from .follow import Candidates, follow
from .layers import heavy_ops
from .loads import crossing_absences, nothing_moves, swap, turn_of


def solve_gtbm(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, lambda case: decide(case, context.options["window"]), first=True)


def decide(case: SimulatedProblem, window: int = 2) -> Candidates:
    """Return the policy's decisions."""
    yield "nothing offloaded", nothing_moves(case)
    heavy = heavy_ops(case)
    at = np.searchsorted(heavy, case.absence_next) - window
    back = np.where(at >= 0, 2 * heavy[np.maximum(at, 0)] + 1, 0)
    yield "", swap(case, crossing_absences(case, turn_of(case)), back)

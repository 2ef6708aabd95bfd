"""`chen-meng`: activations leave in the order of their lifetimes, the longest first, until the rest fits.

Source: Meng, Sun, Yang, Qiu and Gu, Training Deeper Models by GPU Memory Optimization on TensorFlow, ML
Systems Workshop at NIPS 2017.

Steps.

1. Each op's end on the ideal clock. The lifetime of an activation is the time from its producer to its last
   use. The shortest-lived stay: `short` percent of those that the backward pass uses again (50, the median).
2. The others are taken by falling lifetime until the load fits at every op: each is swapped out behind its
   last forward use, and is back for its first backward use.
3. A swap-in starts with the latest op from whose beginning on the copy fits before the use, on the ideal
   clock.

It fails if the load is still too high when all long-lived ones leave.

Abstracted: the nodes that its rewriting adds to the graph of TensorFlow; attention scores of sequence models
that it computes again. Inferred: the threshold between short and long lifetimes, and the rule of step 3, for
which the paper names control edges alone.
"""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import SimulatedProblem
from .follow import Candidates, follow
from .loads import add_load, crossing_absences, forced_away, load_of, swap, turn_of


def solve_chen_meng(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, lambda case: decide(case, context.options["short"]))


def decide(case: SimulatedProblem, short: int = 50) -> Candidates:
    """Return the policy's decisions."""
    load = load_of(case, forced_away(case))
    chosen = []
    for g in long_lived(case, short).tolist():
        if load.max() <= case.memory:
            break
        case.tick()
        add_load(case, load, g, int(case.absence_next[g]), -1)
        chosen.append(g)
    yield "", swap(case, np.array(chosen, dtype=np.int64), just_in_time(case))


def long_lived(case: SimulatedProblem, short: int) -> Integers:
    """Return the absences of long-lived activations, the longest lifetime first (steps 1 and 2)."""
    crossing = crossing_absences(case, turn_of(case))
    life = np.array(
        [
            case.clock[case.accesses[i][-1][0] + 1] - case.clock[case.accesses[i][0][0]]
            for i in case.absence_tensor[crossing].tolist()
        ],
        dtype=np.int64,
    )
    by_life = crossing[np.argsort(-life, kind="stable")]
    return by_life[: len(by_life) - len(by_life) * short // 100]


def just_in_time(case: SimulatedProblem) -> Integers:
    """Return per absence the anchor of the latest op that begins a copy's time before the use (step 3)."""
    near = case.outer[0] + 1
    trip = np.array([case.transfer_ns(size, near) for size in case.absence_size.tolist()], dtype=np.int64)
    due = case.clock[np.minimum(case.absence_next, 2 * case.ops)] - trip
    return 2 * np.maximum(np.searchsorted(case.clock, due, side="right") - 1, 0)

"""`layrub`: each layer's data leave behind their forward use, and return one layer ahead of the backward one.

Source: Jin, Liu, Jiang, Ma, Shi, He and Zhao, Layer-Centric Memory Reuse and Data Migration for Extreme-Scale
Deep Learning on Many-Core Architectures, ACM TACO 2018 (Layrub).

Steps.

1. Where everything fits, nothing moves.
2. Forward: when the last layer that uses an activation has run, it is copied out, beside the layers that
   follow, and released.
3. Backward: the data of layer l - 1 are asked back when layer l starts; layers are those of `layers`.

It fails if a layer and its neighbour do not fit together.

Left out: within a layer it computes the gradient of the weights before that of the activations, so that the
input's gradient takes the place of the output's. The order of the ops is the question's, so a graph has to
come in that order; with accounting ``replace`` a gradient then takes the place of the one that dies. Its
optional compression is the graph's (``compress.activation=2``, see `flashneuron`). Abstracted: the region of
fixed size that successive layers use in turn. Inferred: step 1, for a user asks for migration where training
fails without.
"""

from __future__ import annotations

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import SimulatedProblem
from .follow import Candidates, follow
from .layers import first_ops, layers
from .loads import crossing_absences, nothing_moves, swap, turn_of


def solve_layrub(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide, first=True)


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    yield "nothing migrated", nothing_moves(case)
    numbers = layers(case)
    used = numbers[case.absence_next % case.ops]
    back = 2 * first_ops(numbers)[np.maximum(used - 1, 0)] + 1
    yield "", swap(case, crossing_absences(case, turn_of(case)), back)

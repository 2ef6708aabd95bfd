"""`oc-dnn`: unified memory with hints: the next op's weights are prefetched, other operands come on demand.

Source: Awan, Chu, Subramoni, Lu and Panda, OC-DNN: Exploiting Advanced Unified Memory Capabilities in CUDA 9
and Volta GPUs for Out-of-Core DNN Training, HiPC 2018.

Steps.

1. What an op creates is prefetched, that is allocated, as the op starts.
2. At the start of op k the weights of op k + 1 that are away are asked for (``weights=0``: they are not).
3. Other operands are fetched when their op is due. Room is made by evicting the tensors of least recent use,
   those of the op that runs or is due excepted.

It fails only if one op's operands do not fit.

Abstracted: faults cost what the channel's latency says; pages are chunks of 16 MiB by default, evicted tensor
by tensor; the advice that weights should rather be on the device, which the driver need not follow. Inferred:
that weights are prefetched one op ahead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import stay
from .follow import Candidates, follow


def solve_oc_dnn(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    hints = context.options["weights"]
    return follow(problem, context, lambda case: decide(case, hints), chunk=16 * MIB)


def decide(case: SimulatedProblem, weights: bool = True) -> Candidates:
    """Return the policy's decisions."""
    hinted = case.persistent[case.absence_tensor] & (case.absence_next < NEVER) & weights
    back = np.where(hinted, 2 * (case.absence_next - 1) + 1, -1)
    base = replace(stay(case), back=back, rank=case.absence_next % case.ops)
    yield "", replace(base, victim=tables.LEAST_RECENT, eager=True)

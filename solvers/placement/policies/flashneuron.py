"""`flashneuron`: offload a prefix of the forward tensors directly to the SSD, fetch them in order.

Source: Bae et al., FlashNeuron, FAST 2021; as modelled in the artifact of G10 (platformxlab/G10 at de2c8c6,
src/analysis.cc: ``scheduling_offload_flashneuron``, ``FlashNeuron_simulator``), because the released code has
no scheduler.

Steps.

1. Budget: the device without weights and without the largest footprint of one op.
2. Linear selection: the forward tensors that the backward pass uses again, in the order of creation, are
   offloaded one after another until the rest fits into the budget.
3. Each is written in its last absence that begins in the forward pass, first in, first out; its memory is
   released when the copy is complete. The first backward op waits for all copies.
4. From its start on, tensors are fetched in the order of their next uses, as soon as there is room.

Abstracted: compression (its second phase), since tensors here have no ratios; fragmentation of the two-ended
allocator, for which the artifact reports two of its five workloads as failed; without an SSD the host takes
its place. The artifact prefetches into what is free beyond the largest footprint, whenever an op ends; here a
fetch leaves the op that is due its room. Its simulator takes 2**30 bytes for a GB of bandwidth, 7 % more than
the machine has, and runs one iteration. What may not start on the device is fetched as early as is safe.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.simulator import stay
from ..simulator.simulator_case import NEVER, Case
from .carry_out import Candidates, follow
from .loads import crossing_absences, early_returns, forced_away, start_tier, turn_of


def decide(case: Case) -> Candidates:
    """Return the policy's decisions."""
    turn, n = turn_of(case), case.ops
    weights = int(case.size[case.persistent].sum())
    footprint = max(
        int(case.table[tables.WORKSPACE, k])
        + sum(int(case.size[i]) for i in case.table[tables.OP_TENSOR, low:high] if not case.persistent[i])
        for k, (low, high) in enumerate(
            zip(case.table[tables.OP_FIRST, :n], case.table[tables.OP_FIRST, 1 : n + 1], strict=True)
        )
    )
    budget = case.memory - weights - footprint
    base = stay(case)
    tier, back = base.tier.copy(), base.back.copy()
    crossing = crossing_absences(case, turn).tolist()
    kept = sum(int(case.absence_size[g]) for g in crossing)
    barrier = base.barrier.copy()
    for g in sorted(crossing, key=lambda g: (case.accesses[int(case.absence_tensor[g])][0][0], g)):
        if kept < budget:
            break
        kept -= int(case.absence_size[g])
        tier[g] = case.outer[-1]
        back[g] = max(2 * turn + 1, 2 * (int(case.absence_first[g]) + 1))
        barrier[turn] = 1
    forced = forced_away(case)
    tier[forced] = [start_tier(case, g) for g in forced.tolist()]
    early = early_returns(case, np.flatnonzero(tier > 0), case.absence_first + 1)
    back[forced] = 2 * early[forced]
    yield "", replace(base, tier=tier, back=back, rank=np.minimum(case.absence_next, NEVER), barrier=barrier)


def solve_flashneuron(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide)

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
4. The allocator (`two_ends`) has offloaded tensors at one end of the memory, all others at the other. It
   decides when a tensor is fetched: in the order of next uses, when the largest hole has room for it beyond
   the largest footprint; else when its op is due.

It fails where the allocator finds no hole: of G10's workloads on ViT and Inception-v3, as the artifact does.
On the others the allocator's own time, with the artifact's link, is .734, .641 and .532 of the ideal (BERT,
ResNet152, SENet154; published .713, .642 and .533).

Compression is the graph's: with ``compress.activation=2.5`` what is offloaded has been packed by a stated
factor, and channels carry packed bytes (`lowtide.instances.transforms.compress`). The published second phase
offloads what compresses well instead of what does not, until the copies end with the forward pass: it trades
bytes that leave the device for fewer bytes on the channel. It is left out because a policy has no such trade
here: a plan's copy carries the bytes that it frees, packed before or not, so sets that free as many bytes
move as many; and which tensors are sparse no instance says.

Abstracted: the allocator's pages, here bytes; plans have no addresses, so it decides when things are fetched,
not where they lie; a period's iterations begin with an empty pool. Without an SSD the host takes its place.
The artifact takes 2**30 bytes for a GB of bandwidth, 7 % more than the machine has. What may not start on the
device is fetched as early as is safe.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import stay
from .follow import Candidates, DoesNotFit, follow
from .loads import crossing_absences, early_returns, forced_away, start_tier, turn_of
from .two_ends import TwoEnds


def allocated(case: SimulatedProblem, part: float = 1.0) -> tuple[TwoEnds, str]:
    """Return an iteration on the two-ended pool with what is offloaded (steps 1 to 4), and why it failed.

    `part`: of the device that the budget is of.
    """
    turn, n = turn_of(case), case.ops
    weights = int(case.size[case.persistent].sum())
    footprint = max(
        int(case.workspace[k]) + sum(int(case.size[i]) for i, _ in case.operands(k) if not case.persistent[i])
        for k in range(n)
    )
    budget = int(case.memory * part) - weights - footprint
    crossing = crossing_absences(case, turn).tolist()
    kept = sum(int(case.absence_size[g]) for g in crossing)
    leaving: dict[int, int] = {}
    for g in sorted(crossing, key=lambda g: (case.accesses[int(case.absence_tensor[g])][0][0], g)):
        if kept < budget:
            break
        kept -= int(case.absence_size[g])
        leaving[int(case.absence_tensor[g])] = g
    ends = TwoEnds(case, leaving, turn, footprint)
    return ends, ends.carry_out()


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    ends, fault = allocated(case)
    base, turn = stay(case), ends.turn
    tier, back, barrier = base.tier.copy(), base.back.copy(), base.barrier.copy()
    barrier[turn] |= bool(ends.leaving)
    for i, g in ends.leaving.items():
        tier[g] = case.outer[-1]
        asked = 2 * turn + 1 if fault else -1
        back[g] = max(2 * turn + 1, 2 * ends.back[i]) if i in ends.back else asked
    forced = forced_away(case)
    tier[forced] = [start_tier(case, g) for g in forced.tolist()]
    early = early_returns(case, np.flatnonzero(tier > 0), case.absence_first + 1)
    back[forced] = 2 * early[forced]
    decisions = replace(
        base, tier=tier, back=back, rank=np.minimum(case.absence_next, NEVER), barrier=barrier
    )
    if fault:
        raise DoesNotFit(fault, decisions)
    yield "", decisions


def solve_flashneuron(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide)

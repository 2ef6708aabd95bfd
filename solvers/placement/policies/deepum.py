"""`deepum`: correlation prefetching on unified memory, as the artifact of G10 emulates it.

Source: Jung, Kim and Lee, DeepUM, ASPLOS 2023; the emulation in Zhang et al., G10, MICRO 2023
(platformxlab/G10, src/analysis.cc, src/simulationComponents.cc), which takes the prediction of kernels as
perfect.

Steps. At the start of op i the tensors of op i + N are asked for (N = 8, modulo the iteration). Room is made
by evicting the least recently used tensors that none of the ops i .. i + N - 1 uses; if there is none, the
prefetch waits. What is missing when its op is due is fetched on demand. Evicted tensors go to the host, to
the slow tier when it is full; dead ones leave without traffic.

Abstracted: tables of correlations and the first iteration that fills them; faults cost what the channel's
latency says; pages are chunks of 16 MiB by default, evicted tensor by tensor; memory of what an op creates is
allocated as it starts, not eight ops ahead. The op that is due may evict tensors of the spared ops if nothing
else helps; that is counted as an emergency. An op starts when all its tensors are there, while in the
artifact it runs as they come (see `g10`): if every op hid a wait as long as itself, ResNet152 would rise from
.784 of the ideal to .854 (published .853), SENet154 from .624 to .726 (.688).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.simulator import stay
from ..simulator.simulator_case import NEVER, Case
from .carry_out import MIB, Candidates, follow


def solve_deepum(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    degree = context.options["degree"]

    def decide(case: Case) -> Candidates:
        ahead = np.maximum(2 * (case.absence_next - degree) + 1, 2 * (case.absence_first + 1))
        back = np.where(case.absence_next < NEVER, ahead, -1)
        rule = tables.LEAST_RECENT
        yield (
            "",
            replace(
                stay(case),
                back=back,
                rank=case.absence_next % case.ops,
                victim=rule,
                eager=True,
                spared=degree - 1,
            ),
        )

    return follow(problem, context, decide, chunk=16 * MIB)

"""`deepum`: correlation prefetching on unified memory, learned, or as the artifact of G10 emulates it.

Source: Jung, Kim and Lee, DeepUM, ASPLOS 2023; the emulation in Zhang et al., G10, MICRO 2023
(platformxlab/G10, src/analysis.cc, src/simulationComponents.cc), which takes the prediction of kernels as
perfect.

Steps. At the start of op i the tensors of op i + N are asked for (N = 8, modulo the iteration). Room is made
by evicting the least recently used tensors that none of the ops i .. i + N - 1 uses; if there is none, the
prefetch waits. What is missing when its op is due is fetched on demand. Evicted tensors go to the host, to
the slow tier when it is full; dead ones leave without traffic.

With `iterations`, DeepUM's tables of correlations say what is asked for. An op is an execution of its own,
whose successor has been the same in every iteration; its table holds what has ever faulted in it. The first
iteration has empty tables: pure demand, `demand-lru`. Each one that follows, in its steady state, asks for
what the tables hold, and adds what faulted nevertheless. What never left the device is never asked for. On
BERT, ViT and ResNet152 of G10 a single iteration is enough for the time of a perfect prediction.

Abstracted: limits of the tables' rows, ways and successors; chains that only a fault begins to follow; faults
cost what the channel's latency says; pages are chunks of 16 MiB by default, evicted tensor by tensor; memory
of what an op creates is allocated as it starts, not eight ops ahead. The op that is due may evict tensors of
the spared ops if nothing else helps; that is counted as an emergency. An op starts when all its tensors are
there, while in the artifact it runs as they come (see `g10`): if every op hid a wait as long as itself,
ResNet152 would rise from .784 of the ideal to .854 (published .853), SENet154 from .624 to .726 (.688).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions, SimulatedRun, simulate, stay
from ..world.channels import HOST_IN, LOG_COPY, LOG_RUN
from .follow import Candidates, follow

Absences = NDArray[np.bool_]
"""Per absence of a problem, whether it is one of them."""


def solve_deepum(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    degree, iterations = context.options["degree"], context.options.get("iterations")
    return follow(problem, context, lambda case: decide(case, degree, iterations), chunk=16 * MIB)


def decide(case: SimulatedProblem, degree: int = 8, iterations: int | None = None) -> Candidates:
    """Return the policy's decisions."""
    returning = case.absence_next < NEVER
    known = returning if iterations is None else learned(case, degree, iterations)
    yield "", prefetching(case, degree, known)


def prefetching(case: SimulatedProblem, degree: int, known: Absences) -> Decisions:
    """Return the decisions by which what is known is asked for ahead of its op; on demand if nothing is."""
    ahead = np.maximum(2 * (case.absence_next - degree) + 1, 2 * (case.absence_first + 1))
    base = replace(stay(case), victim=tables.LEAST_RECENT, eager=True)
    if not known.any():
        return base
    rank = case.absence_next % case.ops
    return replace(base, back=np.where(known, ahead, -1), rank=rank, spared=degree - 1)


def learned(case: SimulatedProblem, degree: int, iterations: int) -> Absences:
    """Return the absences that ended with a fault in one of so many iterations, each with what it knows."""
    known = np.zeros(len(case.absence_tensor), dtype=np.bool_)
    for _ in range(iterations):
        case.tick()
        faults = returned(simulate(case, prefetching(case, degree, known))) & ~known
        if not faults.any():
            break
        known |= faults
    return known


def returned(run: SimulatedRun) -> Absences:
    """Return the absences that ended with a copy to the device; none if there is no plan."""
    case, early = run.case, np.zeros(len(run.case.absence_tensor), dtype=np.bool_)
    if run.time is None:
        return early
    of = {
        (int(i), int(after) % case.ops): g
        for g, (i, after) in enumerate(zip(case.absence_tensor, case.absence_next, strict=True))
        if after < NEVER
    }
    begins = {what: begin for kind, what, _, begin, _ in run.log.tolist() if kind == LOG_RUN}
    for kind, chunk, channel, _, end in run.log.tolist():
        if kind == LOG_COPY and channel >= HOST_IN:
            i = int(case.owner[chunk])
            uses = [k for k, _ in case.accesses[i]]
            there = end - run.time if end > run.time else end
            use = next((k for k in uses if begins[k] >= there), uses[0])
            if (i, use) in of:
                early[of[i, use]] = True
    return early

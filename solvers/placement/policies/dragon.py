"""`dragon`: unified memory over a file: on demand, with read-ahead by address and lazy writes.

Source: Markthub, Belviranli, Lee, Vetter and Matsuoka, DRAGON: Breaking GPU Memory Capacity Limits with
Direct NVM Access, SC 2018.

Steps.

1. An op that is due fetches the pages that it misses, in one batch of faults after another.
2. Read-ahead: with an access at some address, what lies within the next `ahead` MiB (default 16) is asked for
   as well if it is away. Addresses are those of one mapping in which the tensors stand in the graph's order.
3. Room is made by evicting the tensors of least recent use, those of the op excepted.
4. Lazy writes: what was changed is written when it is evicted, to the host, which serves as the page cache,
   and to the slow tier only when the host is full; what has a copy elsewhere is dropped.

It fails only if one op's operands do not fit.

Abstracted: a batch of faults is a chunk, 16 MiB by default, evicted tensor by tensor; its cost is the
channel's latency; the map, sync and unmap of files. Read-ahead follows accesses, whether their pages were
there or not, since decisions are made before the run. The host cannot hand pages on to the slow tier. The
processor reads what it uses on the device, not in place in host memory.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..simulator import tables
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import stay
from .follow import Candidates, follow


def solve_dragon(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    ahead = context.options["ahead"] * MIB
    return follow(problem, context, lambda case: decide(case, ahead), chunk=16 * MIB)


def decide(case: SimulatedProblem, ahead: int = 16 * MIB) -> Candidates:
    """Return the policy's decisions."""
    base = replace(stay(case), back=read_ahead(case, ahead), rank=case.absence_tensor)
    yield "", replace(base, victim=tables.LEAST_RECENT, eager=True)


def read_ahead(case: SimulatedProblem, ahead: int) -> Integers:
    """Return per absence the anchor of its first access to a tensor at most so many bytes below, -1: none."""
    end = np.cumsum(case.size)
    low = np.searchsorted(end, end - case.size - ahead, side="right").tolist()
    uses = [[k for k, _ in some] for some in case.accesses]
    back = np.full(len(case.absence_tensor), -1, dtype=np.int64)
    for g, i in enumerate(case.absence_tensor.tolist()):
        case.tick()
        first, after = int(case.absence_first[g]), int(case.absence_next[g])
        if after >= NEVER or not ahead:
            continue
        nearest = after
        for j in range(low[i], i):
            at = bisect_right(uses[j], first)
            op = uses[j][at] if at < len(uses[j]) else uses[j][0] + case.ops
            nearest = min(nearest, op)
        back[g] = 2 * nearest if nearest < after else -1
    return back

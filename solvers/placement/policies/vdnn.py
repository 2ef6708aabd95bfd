"""`vdnn`: offload activations while the op runs that uses them, fetch one op ahead, wait for both.

Source: Rhu et al., vDNN, MICRO 2016, sections 3.2 and 3.3; variants and the order of trials also after the
code of vDNN++ (shriramsb/vdnn-plus-plus).

Steps.

1. The offload set: activations that a forward op used last before the backward pass uses them again; *all* of
   them, or those that a convolution uses last (*conv*).
2. A member is copied to the host from the start of that op on (behind it if the op writes the tensor), and
   its return begins at the start of the op before its next use.
3. Every op waits until all copies asked for before are through: the two streams meet behind every layer.
4. *dynamic*: nothing is offloaded if that fits; else conv; else all. The first that fits is taken.

Abstracted: layers are ops; algorithms of convolutions with their workspaces are the graph's (a graph has one
mode per op); the search for the layer to prefetch ends one op ahead; cuDNN and the pool are left out. Weights
stay on the device; what may not start there is fetched one op ahead as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.simulator import Decisions, stay
from ..simulator.simulator_case import NEVER, Case
from .carry_out import Candidates, follow
from .loads import forced_away, start_tier, turn_of


def solve_vdnn(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    offload = context.options["offload"]

    def decide(case: Case) -> Candidates:
        crossing = crossing_absences(case, turn_of(case))
        ops = case.graph.ops
        conv = [g for g in crossing.tolist() if "conv" in ops[int(case.absence_first[g])].kind.lower()]
        if offload == "dynamic":
            yield "nothing offloaded", _layers(case, np.array([], dtype=np.int64))
        if offload in ("conv", "dynamic"):
            yield "conv", _layers(case, np.array(conv, dtype=np.int64))
        if offload in ("all", "dynamic"):
            yield "all", _layers(case, crossing)

    return follow(problem, context, decide, first=True)


def crossing_absences(case: Case, turn: int) -> Integers:
    """Return the absences of activations that begin before the backward pass and end in it."""
    plain = ~case.persistent[case.absence_tensor] & (case.absence_first >= 0) & (case.absence_next < NEVER)
    return np.flatnonzero(plain & (case.absence_first < turn) & (case.absence_next >= turn))


def _layers(case: Case, chosen: Integers) -> Decisions:
    base = stay(case)
    tier, out = base.tier.copy(), base.out.copy()
    tier[chosen] = case.outer[0]
    for g in forced_away(case).tolist():
        tier[g] = start_tier(case, g)
    for g in chosen.tolist():
        written = dict(case.accesses[int(case.absence_tensor[g])])[int(case.absence_first[g])]
        if not written:
            out[g] -= 1
    ahead = np.maximum(2 * (case.absence_next - 1) + 1, 2 * (case.absence_first + 1))
    back = np.where((tier > 0) & (case.absence_next < NEVER), ahead, -1)
    return replace(base, tier=tier, out=out, back=back, barrier=np.ones(case.ops, dtype=np.int64))

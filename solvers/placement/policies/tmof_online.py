"""`tmof-online`: TMOF's engine without a solver: the largest reuse distance leaves first until all fits.

Source: Lin, Chen, Cheng and Yang, "Tensor movement orchestration in multi-GPU training systems", HPCA 2023.
*Inferred* from its abstract and notes on it (reuse distances from the first iteration, largest first;
tensors disjoint among GPUs; a token, so that GPUs do not swap out at once), as in
`lowtide.formulations.placement.tmof.swaps_milp`.

Steps.

1. Absences by falling reuse distance, the ideal time from one access to the next. They are taken in this
   order until the load fits, whether each lowers a peak or not.
2. A tensor is written as its absence begins. It is asked back when the ideal time to its next access is that
   of its copy, times option ``ahead``; later only if there is no room before.

Several GPUs with the same graph carry this out in the runtime of
`lowtide.solvers.placement.reductions.replicas.runtime`, which knows nothing of contention. Option ``share``:

``oblivious``
    All take the same absences; the link serves who asks first.
``disjoint``
    GPU g of G takes the absences of rank g, g + G, ... first, and others only if these do not suffice.
``bidirectional``
    As oblivious, but who copies out has a token, and copies nothing in meanwhile.
``both``
    The last two.

Deviation: a GPU gives the token back when it has nothing to copy out at the moment.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....formulations.model import BuildTimeout
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..reductions.replicas.runtime import carry_out
from ..reductions.replicas.share import Replicas, replicas
from ..reductions.replicas.together import raise_joint_bounds
from ..simulator.problem import NEVER, SimulatedProblem, simulated_problem
from ..simulator.simulator import Decisions, simulate, stay
from .follow import NOT_DECIDED, follow
from .loads import Outside, add_load, early_returns, forced_away, start_tier

SHARES = ("oblivious", "disjoint", "bidirectional", "both")


def solve_tmof_online(problem: Placement, context: Context) -> Outcome:
    """Run the policy; on several GPUs as option ``share`` says."""
    ahead = context.options["ahead"]
    alike = replicas(problem)
    if alike is None or len(alike.lanes) < 2:
        return follow(problem, context, lambda case: [("", decide(case, ahead=ahead))])
    context.careful = True
    raise_joint_bounds(alike, context)
    try:
        return _together(alike, context, context.options["share"], ahead)
    except BuildTimeout:
        return Outcome(reason="time", detail=NOT_DECIDED)


def _together(alike: Replicas, context: Context, share: str, ahead: int) -> Outcome:
    """Offer the plan of several GPUs."""
    chunk = context.options["chunk"] * MIB if "chunk" in context.options else None
    case = simulated_problem(alike.alone, chunk, lambda: context.expired)
    many = len(alike.lanes)
    plans: list[Plan] = []
    emergencies = evictions = 0
    for g in range(many):
        if share in ("oblivious", "bidirectional") and plans:
            plans.append(plans[0])
            continue
        turn = (g, many) if share in ("disjoint", "both") else (0, 1)
        decisions = decide(case, turn=turn, ahead=ahead)
        run = simulate(case, decisions)
        if run.time is None and not context.options["strict"]:
            run = simulate(case, decisions.with_emergencies())
        if run.time is None:
            return Outcome(detail=f"GPU {g}: {run.fault}")
        emergencies, evictions = emergencies + run.emergencies, evictions + run.evictions
        plans.append(run.plan())
    rule = "token" if share in ("bidirectional", "both") else "fifo"
    context.offer(carry_out(alike, plans, rule))
    return Outcome(detail=context.refused, facts={"emergencies": emergencies, "evictions": evictions})


def decide(case: SimulatedProblem, *, turn: tuple[int, int] = (0, 1), ahead: int = 1) -> Decisions:
    """Return the policy's decisions.

    Parameters
    ----------
    case
        Of one GPU.
    turn
        Which GPU it is, of how many that take different absences.
    ahead
        How many times the time of a copy a tensor is asked back before its access.
    """
    base, load, outside = stay(case), case.live.copy(), Outside(case)
    tier = base.tier.copy()
    fixed = forced_away(case)
    for g in fixed.tolist():
        tier[g] = start_tier(case, g)
        outside.take(int(tier[g]), g)
        add_load(case, load, g, int(case.absence_next[g]), -1)
    ends = np.where(case.absence_next >= NEVER, case.ops, case.absence_next)
    distance = case.clock[ends] - case.clock[case.absence_first + 1]
    kept = [g for g in range(len(tier)) if not tier[g]]
    kept.sort(key=lambda g: (-int(distance[g]), g))
    mine, many = turn
    others = [g for rank, g in enumerate(kept) if rank % many != mine]
    for g in [*kept[mine::many], *others]:
        if load.max() <= case.memory:
            break
        case.tick()
        tier[g] = outside.nearest(g)
        add_load(case, load, g, int(case.absence_next[g]), -1)
    away = np.flatnonzero(tier > 0)
    least = case.absence_first + 1
    for g in away.tolist():
        if case.absence_next[g] < NEVER:
            trip = ahead * case.transfer_ns(int(case.absence_size[g]), int(tier[g]) + 1)
            due = int(case.clock[case.absence_next[g]]) - trip
            op = int(np.searchsorted(case.clock, due, side="right")) - 1
            least[g] = max(int(least[g]), op)
    returns = early_returns(case, away, least)
    back = np.where((tier > 0) & (case.absence_next < NEVER), 2 * returns, -1)
    return replace(base, tier=tier, back=back, rank=case.absence_next % case.ops)

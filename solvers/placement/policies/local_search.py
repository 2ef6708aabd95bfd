"""`local-search` for `placement`: annealing over decisions on every absence, judged by the simulator.

A state is what a policy decides (`lowtide.solvers.placement.simulator.simulator.Decisions`): per absence the
tier where the tensor is, the anchors of its copy out and of its return, its rank among others. Its energy is
the time that the simulator finds. Emergency evictions are allowed, so that every state has a plan; the
detail counts those of the best.

**Granularity.** Copies move chunks, unless the problem wants whole tensors.

**Start.** The best of the policies `belady`, `autoswap` (four scores) and `g10` (as it is, and without
its evictions at run time), and of *stay*, by which tensors leave only in emergencies.

**Moves.** An absence is drawn, half of the time one that is away, or could be, at an op that waited in the
current plan, and one of these changes it:

1. *toggle*: it is away in another tier, or stays. New absences are written at the beginning of the absence
   and asked back a random distance before the next use.
2. *return*: it is asked back earlier or later; distances are drawn so that each order of magnitude is as
   likely.
3. *write*: it is written earlier, back to the last write of the tensor, or later.
4. *reorder*: it takes the rank of another absence, which decides among transfers of one anchor.
5. *exchange*: it stays, and another absence at the same op is away instead.

**Annealing** (Kirkpatrick, Gelatt and Vecchi, 1983). A move that costs d ns more is taken with probability
exp(-d / temperature); the temperature falls geometrically from `WARM` to `COLD` of the start's stall over
each round, and each round starts from the best state known, with more simulations than the one before. Moves
follow from the problem, the seed and the options; time only decides when they stop.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import exp
from random import Random

import numpy as np

from ....formulations.model import BuildTimeout
from ....formulations.placement.bounds.releases import ideal_time
from ....models.arrays import Integers
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..reductions.replicas.together import for_replicas
from ..simulator.problem import NEVER, SimulatedProblem, simulated_problem
from ..simulator.simulator import Decisions, SimulatedRun, simulate, stay
from ..simulator.tables import NO_VICTIM
from ..world.channels import LOG_RUN
from . import autoswap, belady, g10
from .follow import LATE_OPS, NOT_DECIDED
from .loads import forced_away

RUNS = 20_000
"""Simulations after which the search ends by itself."""
FIRST_ROUND, GROWTH = 500, 2
"""Simulations of the first round; how many times more each next one has."""
WARM, COLD = 0.02, 0.0002
"""First and last temperature of a round, as parts of the start's stall."""
FINEST, CHUNKS = 8, 256
"""Chunks have at least so many MiB, and at least such a part of the device."""
SLICE = 50
"""Simulations between two lines of progress, and between two plans that are told."""


@for_replicas
def solve_local_search(problem: Placement, context: Context) -> Outcome:
    """Improve the best policy's decisions until the time or the runs are up, or nothing waits."""
    device = problem.machine.tiers[0].capacity or 0
    default = max(FINEST, device // CHUNKS // MIB)
    chunk = context.options.get("chunk", default) * MIB
    case = simulated_problem(problem, chunk, lambda: context.expired)
    context.raise_bound(ideal_time(problem), kind="sum of durations", averages=True)
    context.careful = True
    try:
        best, run = _start(case, context)
    except BuildTimeout:
        return Outcome(reason="time", detail=NOT_DECIDED)
    if run is None:
        return Outcome(detail=context.refused or "no policy and no emergency eviction leads to a plan")
    random = Random(context.seed)
    runs, length = context.options.get("runs", RUNS), FIRST_ROUND
    left = runs
    while left > 0 and not context.expired and not context.closed and len(case.absence_tensor):
        better, result, steps = _round(case, best, run, min(left, length), random, context)
        left, length = left - steps, length * GROWTH
        if _time(result) < _time(run):
            best, run = better, result
    words = [f"emergency evictions: {run.emergencies}"] if run.emergencies else []
    detail = ", ".join([*words, f"{runs - left} simulations"])
    facts = {"emergencies": run.emergencies, "evictions": run.evictions, "simulations": runs - left}
    reason = "time" if context.expired and not context.closed else None
    return Outcome(reason=reason, detail=detail, facts=facts)


def _start(case: SimulatedProblem, context: Context) -> tuple[Decisions, SimulatedRun | None]:
    """Offer the best plan of a policy that verifies; return its decisions and what they lead to."""
    candidates = [stay(case).with_emergencies()]
    for policy in (belady.decide, autoswap.decide, g10.decide):
        if context.expired:
            break
        with suppress(BuildTimeout):
            for _, decisions in policy(case):
                candidates.append(decisions.with_emergencies())
                if decisions.eager:
                    candidates.append(replace(decisions, victim=NO_VICTIM, eager=False).with_emergencies())
    if case.ops > LATE_OPS:
        case.tick()
    fitting: list[tuple[int, int, SimulatedRun]] = []
    for number, decisions in enumerate(candidates):
        if fitting and context.expired:
            break
        result = simulate(case, decisions)
        if result.time is not None:
            fitting.append((result.time, number, result))
    refused = ""
    for _, number, result in sorted(fitting, key=lambda one: one[:2]):
        context.offer(result.plan())
        if not context.refused:
            return candidates[number], result
        refused = refused or context.refused
    context.refused = refused
    return candidates[0], None


def _round(
    case: SimulatedProblem,
    start: Decisions,
    first: SimulatedRun,
    steps: int,
    random: Random,
    context: Context,
) -> tuple[Decisions, SimulatedRun, int]:
    """Anneal for at most `steps` simulations; return the best state, what it leads to, and how many."""
    ideal = int(case.duration.sum())
    now, now_run, best, best_run, shown = start, first, start, first, first
    fixed = set(forced_away(case).tolist())
    scale = max(_time(first) - ideal, 1)
    waits = _waits(case, first)
    done = steps
    try:
        for step in range(steps):
            if best_run is not shown and (step % SLICE == 0 or best_run.time == context.bound):
                context.offer(best_run.plan())
                shown = best_run
            if context.expired or context.closed:
                done = step
                break
            if step % SLICE == 0:
                context.progress(f"simulations, stall {_time(best_run) - ideal} ns")
            changed = _move(case, now, waits, fixed, random)
            run = simulate(case, changed)
            if run.time is None:
                continue
            temperature = scale * WARM * (COLD / WARM) ** (step / steps)
            worse = run.time - _time(now_run)
            if worse > 0 and random.random() >= exp(-worse / temperature):
                continue
            if worse:
                waits = _waits(case, run)
            now, now_run = changed, run
            if run.time < _time(best_run):
                best, best_run = changed, run
    finally:  # Ctrl-C loses nothing
        if best_run is not shown:
            context.offer(best_run.plan())
    return best, best_run, done


def _time(run: SimulatedRun) -> int:
    """Return the time of a simulation that has a plan."""
    assert run.time is not None
    return run.time


def _waits(case: SimulatedProblem, run: SimulatedRun) -> list[int]:
    """Return the ops that waited."""
    rows = run.log[run.log[:, 0] == LOG_RUN]
    start = rows[:, 3]
    end = np.concatenate((np.zeros(1, np.int64), rows[:-1, 4]))
    waited: list[int] = rows[start > end, 1].tolist()
    return waited


def _copy_anchors(case: SimulatedProblem, back: Integers, g: int) -> tuple[int, int]:
    """Return the first and last anchor from which an absence's tensor may be copied out."""
    written = [k for k, w in case.accesses[int(case.absence_tensor[g])] if w and k <= case.absence_first[g]]
    most = 2 * min(int(case.absence_next[g]), case.ops)
    return 2 * (max(written, default=-1) + 1), most if back[g] < 0 else min(most, int(back[g]))


def _move(
    case: SimulatedProblem, now: Decisions, waits: list[int], fixed: set[int], random: Random
) -> Decisions:
    """Return the decisions with one change."""
    tier, out, back, rank = now.tier.copy(), now.out.copy(), now.back.copy(), now.rank.copy()
    op = random.choice(waits) if waits and random.random() < 0.5 else random.randrange(case.ops)
    around = _around(case, op)
    if not len(around):
        return now
    g = int(random.choice(around.tolist()))
    kind = random.choice(("toggle", "return", "return", "write", "reorder", "exchange"))
    if g in fixed and kind in ("toggle", "write", "exchange"):
        kind = "return"
    if not tier[g] and kind in ("return", "write", "reorder"):
        kind = "toggle"
    if kind == "toggle":
        _set_tier(
            case, tier, out, back, g, random.choice([x for x in (0, *case.outer) if x != tier[g]]), random
        )
    elif kind == "return":
        if case.absence_next[g] < NEVER:
            at = back[g] if back[g] >= 0 else 2 * case.absence_next[g]
            at += 2 * _distance(random, case.ops)
            back[g] = min(max(at, out[g], 2 * (case.absence_first[g] + 1)), 2 * case.absence_next[g])
    elif kind == "write":
        least, most = _copy_anchors(case, back, g)
        out[g] = min(max(out[g] + 2 * _distance(random, case.ops), least), max(most, least))
    elif kind == "reorder":
        other = int(random.choice(around.tolist()))
        rank[g], rank[other] = rank[other], rank[g]
    else:
        others = [h for h in around.tolist() if (tier[h] > 0) != (tier[g] > 0) and h not in fixed]
        if others:
            h = int(random.choice(others))
            away = max(int(tier[g]), int(tier[h]))
            for some in (g, h):
                _set_tier(case, tier, out, back, some, 0 if tier[some] else away, random)
    return replace(now, tier=tier, out=out, back=back, rank=rank)


def _set_tier(
    case: SimulatedProblem, tier: Integers, out: Integers, back: Integers, g: int, to: int, random: Random
) -> None:
    if to and not tier[g]:
        out[g] = case.opening[g]
        if case.absence_next[g] < NEVER:
            before = abs(_distance(random, max(int(case.absence_next[g] - case.absence_first[g]), 2)))
            back[g] = max(2 * (case.absence_next[g] - before), out[g])
    elif not to:
        back[g] = -1
    tier[g] = to


def _around(case: SimulatedProblem, op: int) -> Integers:
    """Return the absences that contain an op, going round included."""
    first, after = case.absence_first, case.absence_next
    around: Integers = np.flatnonzero(
        ((first < op) & (op < after)) | ((after < NEVER) & (op < after - case.ops))
    )
    return around


def _distance(random: Random, most: int) -> int:
    """Return a distance other than 0 up to about `most`, every order of magnitude as likely."""
    length = int(2 ** (random.random() * max(most, 2).bit_length()))
    return max(length, 1) if random.random() < 0.5 else -max(length, 1)

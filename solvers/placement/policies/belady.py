"""`belady`: evict what is used furthest ahead, and fetch it back as early as is safe; SwapAdvisor's planner.

Source: Huang, Jin and Li, SwapAdvisor, ASPLOS 2020, section 4.2; the choice is Belady's (1966). Its search
over orders and pools is left out: the order is the graph's, and all memory is one pool of bytes.

Steps.

1. Without times, from an empty device: each op loads what it misses; while memory does not suffice, the
   tensor leaves whose next access is furthest (cyclically), those of the op excepted.
2. In a period, once more from the persistent tensors that are there at the end; this pass decides who is away
   in which absence.
3. A victim is written out right after its last access before the eviction. Its return begins at the first op
   from which on there is room for it until its next access, in the order of these accesses.

Deviations: a slot of a pool is freed by one victim and taken by one return, which are paired; with one pool
of bytes the forecast of the load takes the place of the pairs. Victims go to the host, where it is full over
the absence, to the slow tier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..simulator.problem import NEVER, SimulatedProblem
from ..simulator.simulator import Decisions, stay
from .follow import Candidates, follow
from .loads import Outside, early_returns, forced_away, start_tier

Choice = Callable[[int, int, int], tuple[float, int]]
"""Of a tensor, an op that makes room, and the tensor's next use: the victim has the greatest."""


def furthest(i: int, _: int, use: int) -> tuple[float, int]:
    """Choose what is used furthest ahead."""
    return use, -i


def decide(case: SimulatedProblem) -> Candidates:
    """Return the policy's decisions."""
    yield "", leave_early(case, evictions(case))


def leave_early(
    case: SimulatedProblem, victims: Mapping[int, int], returns: Mapping[int, int] | None = None
) -> Decisions:
    """Return the decisions by which tensors are away in some absences, each from its begin on (step 3).

    Parameters
    ----------
    case
        Of the policy.
    victims
        By absence, the op for which its tensor makes room: no return begins before.
    returns
        By absence, the op from which on its tensor returns, others when they are due; None: all as early as
        the load permits.
    """
    forced = forced_away(case)
    away = np.array(sorted({*victims, *forced.tolist()}), dtype=np.int64)
    base = stay(case)
    tier, outside = base.tier.copy(), Outside(case)
    fixed = set(forced.tolist())
    for g in away.tolist():
        case.tick()
        if g in fixed:
            tier[g] = start_tier(case, g)
            outside.take(int(tier[g]), g)
        else:
            tier[g] = outside.nearest(g)
    least = case.absence_first + 1
    if returns is None:
        for g, op in victims.items():
            least[g] = max(int(least[g]), op + 1)
        first = early_returns(case, away, least)
    else:
        first = case.absence_next.copy()
        for g, op in returns.items():
            first[g] = op
    back = np.where((tier > 0) & (case.absence_next < NEVER), 2 * first, -1)
    return replace(base, tier=tier, back=back, rank=case.absence_next % case.ops)


def evictions(case: SimulatedProblem, choice: Choice = furthest) -> dict[int, int]:
    """Return the absences at which a tensor is evicted, and for which op it makes room (step 1 and 2)."""
    there = _start(case)
    if not case.problem.periodic:
        evicted, _ = _pass(case, there, choice)
        return evicted
    _, there = _pass(case, there, choice)
    kept = {i for i in there if case.persistent[i]}
    evicted, _ = _pass(case, kept, choice)
    n = case.ops
    for g in np.flatnonzero((case.absence_next >= n) & (case.absence_next < NEVER)).tolist():
        if int(case.absence_tensor[g]) not in kept:
            evicted.setdefault(g, int(case.absence_first[g]) + 1)
    return evicted


def _start(case: SimulatedProblem) -> set[int]:
    """Return initial tensors that the device holds at the beginning: by first use, as long as they fit."""
    room = case.memory - int(case.births[0] + case.workspace[0])
    there = set()
    allowed = np.flatnonzero(case.starts & 1).tolist()
    for i in sorted(allowed, key=lambda i: (case.accesses[i][0][0], i)):
        if case.size[i] <= room:
            room -= int(case.size[i])
            there.add(i)
    return there


def _pass(case: SimulatedProblem, there: set[int], choice: Choice) -> tuple[dict[int, int], set[int]]:
    """Run through the ops without times; return evictions by absence, and who is there at the end."""
    n, periodic = case.ops, case.problem.periodic
    there = set(there)
    used = sum(int(case.size[i]) for i in there)
    by_tensor: dict[int, list[int]] = {}
    for g, i in enumerate(case.absence_tensor.tolist()):
        by_tensor.setdefault(i, []).append(g)
    evicted: dict[int, int] = {}
    accessed: list[list[int]] = [[] for _ in range(n)]
    for i, some in enumerate(case.accesses):
        for k, _ in some:
            accessed[k].append(i)
    coming = [[k for k, _ in some] for some in case.accesses]
    place = [0] * len(coming)

    def next_use(i: int, k: int) -> int:
        while place[i] < len(coming[i]) and coming[i][place[i]] < k:
            place[i] += 1
        if place[i] < len(coming[i]):
            return coming[i][place[i]]
        return coming[i][0] + n if periodic and case.persistent[i] else NEVER

    entries = [
        i
        for i in np.flatnonzero((case.starts & 1) > 0).tolist()
        if periodic and not case.persistent[i] and i not in there
    ]
    for i in entries:
        there.add(i)
        used += int(case.size[i])
    for k in range(n):
        case.tick()
        needed = accessed[k]
        used += sum(int(case.size[i]) for i in needed if i not in there)
        there.update(needed)
        while used + int(case.workspace[k]) > case.memory:
            others = [i for i in there if i not in needed and case.size[i]]
            if not others:
                break
            victim = max(others, key=lambda i: choice(i, k, next_use(i, k)))
            there.discard(victim)
            used -= int(case.size[victim])
            absence = absence_at(case, by_tensor.get(victim, []), k)
            if absence is not None:
                evicted[absence[0]] = max(absence[1], evicted.get(absence[0], 0))
        for i in needed:
            last = coming[i][-1] == k
            if last and not case.graph.tensors[int(case.tensor[i])].final:
                there.discard(i)
                used -= int(case.size[i])
    return evicted, there


def absence_at(case: SimulatedProblem, absences: list[int], k: int) -> tuple[int, int] | None:
    """Return the absence that contains op k, and k counted from the iteration in which the absence begins."""
    n = case.ops
    for g in absences:
        low, high = int(case.absence_first[g]), int(case.absence_next[g])
        if low < k < high:
            return g, k
        if n <= high < NEVER and k < high - n:
            return g, k + n
    return None


def solve_belady(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    return follow(problem, context, decide)

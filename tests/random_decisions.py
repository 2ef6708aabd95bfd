"""Random placement problems and random decisions for the simulator."""

from dataclasses import replace

import numpy as np

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.simulator import tables
from lowtide.solvers.placement.simulator.problem import NEVER, SimulatedProblem
from lowtide.solvers.placement.simulator.simulator import Decisions, stay
from tests.problems.placement import machine, random_graph, working_set


def random_problem(
    seed: int, ops: int = 14, accounting: Accounting = Accounting.COEXIST, weights: bool = False
) -> lt.Placement:
    """Every combination of single run and period, tiers, latency, joint caps, small host, whole tensors.

    With `weights`, periods in which these may start in some tiers only.
    """
    rng = np.random.default_rng(seed)
    graph = replace(random_graph(seed, ops), accounting=accounting)
    ssd = seed % 7 > 0
    bench = machine(
        working_set(graph) + int(rng.integers(0, 14)),
        [None, 10, 3][seed % 3] if ssd else None,
        latency=[0, 700][seed % 2],
        shared=seed % 5 > 0,
        ssd=ssd,
    )
    tiers = tuple(t.name for t in bench.tiers)
    start = {"input": tiers} if seed % 4 else {}
    if weights:
        some = [x for k, x in enumerate(tiers) if (1 + seed // 4 % 6) >> k & 1]
        start |= {"weight": tuple(some) or ("gpu",)}
    return lt.Placement(
        graph,
        bench,
        periodic=weights or bool(seed // 2 % 2),
        whole=seed % 11 == 0,
        start=start or None,
    )


def random_decisions(case: SimulatedProblem, seed: int, rule: int) -> Decisions:
    """Absences, anchors, order and barriers at random; by `rule`: bare, emergencies, two demand rules."""
    rng = np.random.default_rng(seed)
    absences, n = len(case.absence_tensor), case.ops
    out = 2 * (case.absence_first + 1)
    back = np.full(absences, -1, dtype=np.int64)
    for g in range(absences):
        after = int(case.absence_next[g])
        if rng.random() < 0.3:
            out[g] = rng.integers(2 * (case.absence_first[g] + 1), 2 * min(after, n) + 1)
        if after < NEVER and rng.random() < 0.8:
            back[g] = rng.integers(out[g], 2 * after + 1)
    decisions = Decisions(
        tier=np.where(rng.random(absences) < 0.6, rng.choice(case.outer, size=absences), 0),
        out=out,
        back=back,
        rank=rng.permutation(absences),
        barrier=(rng.random(n) < 0.1).astype(np.int64),
    )
    if rule == 1:
        return decisions.with_emergencies()
    if rule == 2:
        spared = int(rng.integers(0, 3))
        return replace(decisions, victim=tables.LEAST_RECENT, eager=True, spared=spared)
    if rule == 3:
        return replace(stay(case), victim=tables.FURTHEST, eager=True)
    return decisions

"""AutoTM's model on chains of tiers with limits and shared links, both accountings: optima of its rules."""

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.autotm.data import Form, autotm_data
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.autotm.plan import emit
from lowtide.solvers.placement.autotm.prices import Dual
from tests.effort import seeds
from tests.oracles import autotm_rules
from tests.oracles.autotm_chain import fastest
from tests.problems.placement import tiny_graph, working_set
from tests.solvers.placement.autotm.cases import meet

LINKS = {
    "direct": ((0, 1), (1, 0), (0, 2), (2, 0)),
    "chain": ((0, 1), (1, 0), (1, 2), (2, 1)),
    "both": ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)),
}
TIERS = ("gpu", "host", "ssd")


def case(seed: int) -> lt.Placement:
    """Three or four ops, a device and a host with little room; some links share a cap."""
    rng = Random(seed)
    graph = tiny_graph(seed // 2)
    graph = replace(
        graph,
        ops=tuple(replace(op, duration_ns=op.duration_ns // 50 + 1) for op in graph.ops),
        accounting=rng.choice((Accounting.COEXIST, Accounting.REPLACE)),
    )
    links = LINKS[rng.choice(sorted(LINKS))]
    pairs = tuple((TIERS[i], TIERS[j]) for i, j in links)
    rate = {1: 10**9 // 4, 2: 10**9 // 10}
    in_place = graph.accounting is Accounting.COEXIST and rng.random() < 0.4
    access = (lt.Access(tier="gpu"), lt.Access(tier="host", bytes_per_s=10**9 // 2))
    bench = lt.Machine(
        tiers=(
            lt.Tier(name="gpu", capacity=working_set(graph) + rng.randint(0, 4)),
            lt.Tier(name="host", capacity=rng.choice((0, 3, 6, 9, None))),
            lt.Tier(name="ssd"),
        ),
        processors=(lt.Processor(name="gpu0", tiers=access if in_place else access[:1]),),
        channels=tuple(
            lt.Channel(src=TIERS[i], dst=TIERS[j], bytes_per_s=rate[max(i, j)], latency_ns=rng.choice((0, 2)))
            for i, j in links
        ),
        groups=(lt.ChannelGroup(name="link", channels=pairs[:3], bytes_per_s=10**9 // 5),)
        if seed % 3
        else (),
    )
    start = rng.choice(
        (None, {"input": TIERS}, {"weight": ("host",)}, {"input": ("ssd",), "weight": ("ssd",)})
    )
    return lt.Placement(graph, bench, periodic=rng.random() < 0.4, start=start)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(300))
def test_optimum_on_three_tiers_is_that_of_exhaustive_search(seed: int) -> None:
    problem, form = case(seed), ("sync", "async", "static", "async")[seed % 4]
    best = fastest(problem, form)
    dual = Dual(autotm_data(problem, Form(form)))
    meet(dual, problem, rounds=3)
    if best is not None:
        assert dual.bound <= best
    if (solution := dual.solution()) is not None:
        judgement = problem.judge(emit(problem, dual.arrays.data, *solution))
        assert judgement.violations == ()
        assert judgement.objective is not None
        assert best is not None
        assert judgement.objective >= best
    if problem.impossible() is None:
        result = lt.solve(problem, f"autotm-{form}", threads=1, time_limit=None)
        assert result.objective == best, result.detail
        assert result.status is not lt.Status.FAILED


@pytest.mark.parametrize("seed", range(12))
def test_both_searches_agree_on_two_tiers(seed: int) -> None:
    problem = case(seed)
    machine = problem.machine
    two = replace(
        machine,
        tiers=(machine.tiers[0], lt.Tier(name="host")),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=10**8) for a, b in (("gpu", "host"), ("host", "gpu"))
        ),
        processors=tuple(replace(p, tiers=p.tiers[:1]) for p in machine.processors),
        groups=(),
    )
    graph = replace(problem.graph, accounting=Accounting.COEXIST)
    problem = lt.Placement(graph, two, periodic=problem.periodic)
    for form in ("static", "sync", "async"):
        assert fastest(problem, form) == autotm_rules.fastest(problem, form)

"""Local search on the simulator: never worse than the policies, never below an optimum, often it."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.instances.machines import load_machine
from lowtide.solvers.placement.simulator.problem import simulated_problem
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.problems.placement import tiny_placement
from tests.random_decisions import random_problem


@pytest.mark.slow
def test_tiny_runs_meet_the_exhaustive_search() -> None:
    met = tried = 0
    for seed in range(40):
        problem = tiny_placement(seed)
        graph = problem.graph
        where = {
            t: COPY if x.kind == "input" and seed % 2 else DEVICE
            for t, x in enumerate(graph.tensors)
            if x.initial
        }
        best = fastest(graph, problem.machine, where)
        result = lt.solve(problem, "local-search", options={"runs": "300"}, time_limit=None)
        if result.objective is None:
            continue
        tried += 1
        assert best is not None
        assert result.objective >= best, seed
        met += result.objective == best
    assert tried > 25
    assert met > 0.8 * tried


@pytest.mark.parametrize("seed", seeds(24))
def test_never_worse_than_the_policies_it_starts_from(seed: int) -> None:
    problem = random_problem(seed)
    result = lt.solve(problem, "local-search", options={"runs": "300"}, time_limit=None)
    assert result.status in ("feasible", "optimal"), result.detail
    for name in ("belady", "autoswap", "g10"):
        policy = lt.solve(problem, name, options={"chunk": "8"})
        if policy.objective is not None:
            assert result.objective is not None
            assert result.objective <= policy.objective


@pytest.mark.slow
def test_seeds_repeat() -> None:
    problem = random_problem(5, ops=30)
    runs = [
        lt.solve(problem, "local-search", options={"runs": "400"}, seed=seed, time_limit=None)
        for seed in (1, 1, 2)
    ]
    assert runs[0].plan == runs[1].plan
    assert runs[0].plan != runs[2].plan


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.7, 0.4])
def test_training_chains_gain_on_every_policy(share: float) -> None:
    graph = lt.load("gen:skipchain?n=30&seed=1")
    bare = load_machine("v100-16g-pcie3")
    peak = int(simulated_problem(lt.Placement(graph, bare)).live.max())
    problem = lt.Placement(graph, load_machine("v100-16g-pcie3", {bare.tiers[0].name: int(share * peak)}))
    result = lt.solve(problem, "local-search", options={"runs": "3000"}, time_limit=None)
    bound = lt.solve(problem, "slot-lp", time_limit=3).bound  # valid whenever it stops
    assert result.objective is not None
    assert bound is not None
    assert bound <= result.objective
    for name in ("belady", "autoswap", "g10", "vdnn", "flashneuron", "deepum", "demand-lru"):
        policy = lt.solve(problem, name).objective
        assert policy is None or result.objective < 0.99 * policy


def test_whole_tensors_move_whole() -> None:
    graph = lt.load("gen:skipchain?n=20&seed=2")
    peak = int(simulated_problem(lt.Placement(graph, load_machine("v100-16g-pcie3"))).live.max())
    machine = load_machine("v100-16g-pcie3", {"gpu": peak * 3 // 5})
    problem = lt.Placement(graph, machine, whole=True)
    result = lt.solve(problem, "local-search", options={"runs": "500", "chunk": "8"}, time_limit=None)
    assert result.plan is not None
    assert all(copy.bytes is None for copy in result.plan.copies)
    sizes = np.array([graph.tensors[c.tensor].nbytes for c in result.plan.copies])
    assert sizes.min() > 8 * 2**20

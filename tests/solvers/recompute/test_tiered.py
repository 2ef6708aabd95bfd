"""Chains with several slower tiers: H-Revolve's values, limits, and exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.recompute.chains.h_revolve import h_revolve
from lowtide.solvers.recompute.chains.hetero import Stages, hetero_chain
from lowtide.solvers.recompute.chains.tiered import SlowTier, tiered_chain
from tests.oracles.brute_recompute import fastest_recomputation
from tests.recompute_tiers import bench


def time_of(problem: lt.Recompute, method: str) -> int | None:
    return lt.solve(problem, method, threads=1).objective


def in_slots(n: int) -> Stages:
    """Return the uniform chain of H-Revolve's model, in cells: also the last backward has a gradient."""
    ones = [10] * n
    return Stages(
        taped=False, forward=[*ones[1:], 0], backward=ones, inputs=[1] * n, tape=[0] * n, top=[1] * n,
        need_first=[1] * n, need_next=[1] * n, save=[0] * n, back=[1] * n,
    )  # fmt: skip


@pytest.mark.parametrize(("n", "slots", "disk"), [(10, 2, 2), (10, 1, 3), (50, 2, 5)])
def test_the_values_of_h_revolve(n: int, slots: int, disk: int) -> None:
    """The published ones for w = r = .1, 1, 2, 5 times a forward (`recompute_chains` has all 63)."""
    for ns in (1, 10, 20, 50):
        tier = SlowTier(capacity=disk, write=(ns,) * n, read=(ns,) * n)
        found = tiered_chain(in_slots(n), slots + 2, [tier])
        other = h_revolve(n - 1, (slots, disk), (0, ns), (0, ns), 10, 10)
        assert found is not None
        assert other is not None
        assert found[0] == other[0]


def test_three_levels_are_h_revolve_too() -> None:
    n = 20
    costs = [(3, 4), (15, 20)]
    tiers = [SlowTier(capacity=3, write=(w,) * n, read=(r,) * n) for w, r in costs]
    found = tiered_chain(in_slots(n), 1 + 2, tiers)
    other = h_revolve(n - 1, (1, 3, 3), (0, 3, 15), (0, 4, 20), 10, 10)
    assert found is not None
    assert other is not None
    assert found[0] == other[0]


def chain(seed: int, stages: int) -> lt.Recompute:
    """Return a chain of any sizes, plain or taped, on a bench with a host and a disk."""
    rng = Random(seed)
    options = f"largest=3&forward=9&backward=9&spread=2&seed={seed}"
    spec = f"gen:taped-chain?l={stages}&saved=2&" if seed % 2 else f"gen:backprop-chain?l={stages - 1}&"
    graph = lt.load(f"{spec}{options}")
    machine = bench(rng, "star")
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    return lt.Recompute(graph, memory=least + rng.randint(0, 3), machine=machine)


def with_rate(problem: lt.Recompute, rate: int) -> lt.Recompute:
    channels = tuple(replace(c, bytes_per_s=rate, latency_ns=0) for c in problem.machine.channels)
    tiers = tuple(replace(tier, capacity=None) for tier in problem.machine.tiers[1:])
    machine = replace(problem.machine, channels=channels, tiers=(problem.machine.tiers[0], *tiers))
    return replace(problem, machine=machine)


def test_channels_that_are_slow_or_fast_are_none_or_no_matter() -> None:
    slower = 0
    for seed in range(12):
        problem = chain(seed, 6)
        alone = time_of(problem, "hetero-chain")
        found = time_of(problem, "tiered-chain")
        assert alone is None or (found is not None and found <= alone)
        slow = time_of(with_rate(problem, 1), "tiered-chain")
        assert slow == alone or (alone is None and slow is not None and slow >= 10**9)
        slower += alone is not None and found is not None and found < alone
        fast = time_of(with_rate(problem, 10**15), "tiered-chain")
        copies = 2 * len(problem.graph.ops)  # of 1 ns at most, one way and back for each input
        assert fast is not None
        if seed % 2 == 0:  # a taped chain keeps what a stage saves in the memory
            assert fast <= problem.least_time + copies
    assert slower


@pytest.mark.slow
def test_never_below_exhaustive_search_and_often_there() -> None:
    """Seed 6 needs a schedule of another form, 66 ns instead of 70."""
    above = []
    for seed in (0, 4, 6, 12, 14, 24, 36):
        problem = chain(seed, 3)
        best, found = fastest_recomputation(problem.graph, problem.machine), time_of(problem, "tiered-chain")
        assert best is not None
        assert found is not None
        assert found >= best
        above += [seed] if found > best else []
    assert above == [6]


def test_coarse_slots_are_safe_and_no_tiers_are_one_memory() -> None:
    problem = chain(4, 12)
    fine, coarse = (
        lt.solve(problem, "tiered-chain", threads=1, options={"memory-slots": x}).objective
        for x in ("99", "5")
    )
    assert fine is not None
    assert coarse is None or coarse >= fine
    stages = in_slots(8)
    assert tiered_chain(stages, 4, []) is not None
    alone = hetero_chain(stages, 4)
    assert alone is not None
    assert tiered_chain(stages, 4, [])[0] == alone[0]  # type: ignore[index]

"""Chains with several slower tiers: H-Revolve's values, limits, and exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.results.experiments.recompute_chains.table import H_X, H
from lowtide.solvers.recompute.chains.h_revolve import h_revolve
from lowtide.solvers.recompute.chains.hetero import Costs, hetero_chain
from lowtide.solvers.recompute.chains.tiered import SlowTier, tiered_chain
from tests.oracles.brute_chain import fastest_chain
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.naive_h_revolve import naive_h_revolve
from tests.problems.recompute_tiers import bench

COMPUTED = {
    ((1, 2), ((4, 7),)): (121, 296, 978, 2418),
    ((3, 4), ((25, 12),)): (100, 250, 808, 1798),
    ((1, 1, 2), ((4, 7), (20, 33))): (121, 325, 1017, 2320),
    ((2, 3, 1), ((4, 7), (20, 33))): (110, 262, 804, 1820),
    ((1, 2, 3), ((10, 10), (50, 20))): (130, 320, 1000, 2210),
    ((3, 2, 4), ((1, 30), (90, 2))): (100, 250, 812, 1846),
}
"""Times in ns of 5, 10, 25 and 50 steps by slots, in memory and in each slower tier, and by the ns of a write
and of a read there; each op takes 10 ns. Computed by checkpoint_schedules 1.0.4: the last entry of opt that
``hrevolve_sequences.hrevolve.get_hopt_table(n - 1, slots, (0, *writes), (0, *reads), 10, 10)`` returns."""


def time_of(problem: lt.Recompute, method: str) -> int | None:
    return lt.solve(problem, method, threads=1).objective


def in_slots(n: int) -> Costs:
    """Return the uniform chain of H-Revolve's model, in cells: also the last backward has a gradient."""
    ones = [10] * n
    return Costs(
        taped=False, forward=[*ones[1:], 0], backward=ones, inputs=[1] * n, tape=[0] * n, top=[1] * n,
        need_first=[1] * n, need_next=[1] * n, save=[0] * n, back=[1] * n,
    )  # fmt: skip


def value_of(n: int, slots: tuple[int, ...], costs: list[tuple[int, int]]) -> int:
    """Return what `tiered_chain` finds for slots in memory and in each slower tier, 10 ns an op."""
    tiers = [
        SlowTier(capacity=c, write=(w,) * n, read=(r,) * n)
        for c, (w, r) in zip(slots[1:], costs, strict=True)
    ]
    found = tiered_chain(in_slots(n), slots[0] + 2, tiers)
    assert found is not None
    return found[0]


@pytest.mark.slow
def test_the_published_values_of_h_revolve() -> None:
    """All 44, for w = r = .1, 1, 2, 5 times a forward."""
    for (n, slots, disk), values in H.items():
        for x, value in zip(H_X, values, strict=True):
            ns = round(10 * x)
            assert value_of(n, (slots, disk), [(ns, ns)]) == round(10 * value)


def test_values_that_the_public_package_computed() -> None:
    """24 more, on two and on three levels; the method's, too."""
    for (slots, costs), values in COMPUTED.items():
        write, read = zip((0, 0), *costs, strict=True)
        for n, value in zip((5, 10, 25, 50), values, strict=True):
            assert value_of(n, slots, [*costs]) == value
            found = h_revolve(n - 1, slots, write, read, 10, 10)
            assert found is not None
            assert found[0] == value


def test_the_values_of_h_revolves_recurrences() -> None:
    """On two and on three levels, read and written at different costs; the method, too."""
    compared = 0
    for n in (1, 2, 3, 7, 12, 20):
        for slots in ((1, 0), (1, 2), (3, 1), (2, 3), (1, 1, 2), (1, 2, 3), (2, 3, 1)):
            for costs in ([(1, 2), (6, 5)], [(10, 4), (10, 30)], [(50, 50), (200, 7)]):
                k = len(slots) - 1
                write, read = zip((0, 0), *costs[:k], strict=True)
                wanted = naive_h_revolve(n - 1, slots, write, read, 10, 10)
                found = h_revolve(n - 1, slots, write, read, 10, 10)
                assert found is not None
                assert value_of(n, slots, costs[:k]) == found[0] == wanted
                compared += 1
    assert compared == 126


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


def test_limits() -> None:
    """No rate or no room: `hetero-chain`. Copies at no time: the sum of durations. More is never worse."""
    slower = 0
    for seed in range(12):
        problem = chain(seed, 6)
        alone = time_of(problem, "hetero-chain")
        found = time_of(problem, "tiered-chain")
        assert alone is None or (found is not None and found <= alone)
        slower += alone is not None and found is not None and found < alone
        slow = time_of(with_rate(problem, 1), "tiered-chain")
        assert slow == alone or (alone is None and slow is not None and slow >= 10**9)
        lost = ("memory", "lost")
        no_room = tuple(
            tier if tier.name in lost else replace(tier, capacity=0) for tier in problem.machine.tiers
        )
        machine = replace(problem.machine, tiers=no_room)
        assert time_of(replace(problem, machine=machine), "tiered-chain") == alone
        if seed % 2 == 0:  # a taped chain keeps what a stage saves in the memory
            scale = 1000
            ops = tuple(replace(op, duration_ns=op.duration_ns * scale) for op in problem.graph.ops)
            longer = replace(with_rate(problem, 10**15), graph=replace(problem.graph, ops=ops))
            fast = lt.solve(longer, "tiered-chain", threads=1)
            assert fast.plan is not None
            assert fast.objective == longer.least_time + len(fast.plan.copies)  # of 1 ns, and no op again
            assert len(fast.plan.copies) < scale
    assert slower


def nearest_first(problem: lt.Recompute) -> list[str]:
    """Return the slower tiers in the method's order, by what a byte takes to and fro."""
    rate = {x.dst: x.bytes_per_s for x in problem.machine.channels if x.src == "memory"}
    return sorted(rate, key=lambda tier: -rate[tier])


@pytest.mark.slow
def test_as_fast_as_every_schedule_of_its_form() -> None:
    """Of 3 to 5 stages; that search need not be persistent in the memory, which pays once in 40 chains."""
    copied, above = 0, []
    for seed in range(0, 80, 2):
        problem = chain(seed, 3 + seed // 2 % 3)
        best = fastest_chain(problem, nested=True, order=nearest_first(problem))
        result = lt.solve(problem, "tiered-chain", threads=1)
        found = result.objective
        assert result.status == (
            "optimal" if found == problem.least_time else "feasible" if found else "unknown"
        )
        assert (found is None) == (best is None)
        if found is not None and best is not None and result.plan is not None:
            assert found >= best
            above += [seed] if found > best else []
            copied += bool(result.plan.copies)
    assert above == [64]
    assert copied > 10


@pytest.mark.slow
def test_never_below_exhaustive_search_and_mostly_there() -> None:
    """Up to 5 stages; some need a schedule of another form: of 5 stages, seed 0 takes 157 ns, not 169."""
    above = []
    for seed in (0, 2, 14, 20, 28):
        for stages in (3, 4, 5):
            problem = chain(seed, stages)
            best, found = fastest_chain(problem), time_of(problem, "tiered-chain")
            assert best is not None
            assert found is not None
            assert found >= best
            above += [(seed, stages)] if found > best else []
    assert above == [(0, 5), (14, 4), (14, 5), (20, 5), (28, 4)]


@pytest.mark.slow
def test_the_two_exhaustive_searches_agree() -> None:
    for seed in (0, 4):
        problem = chain(seed, 3)
        assert fastest_chain(problem) == fastest_recomputation(problem.graph, problem.machine)


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

"""`recompute` with several slower tiers: a further tier never hurts, and each serves as it can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import in_ns, recompute_data
from lowtide.solvers.recompute.models.paging import paging
from tests.commands import answer
from tests.effort import chosen
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute_tiers import WAYS, bench, small_problem, with_tiers


def solved(problem: lt.Recompute) -> lt.Result:
    return lt.solve(problem, threads=1, time_limit=None)


def on_a_bench(seed: int) -> tuple[lt.Recompute, lt.Machine]:
    problem, rng = small_problem(seed), Random(seed)
    assert problem is not None
    machine = bench(rng, rng.choice(list(WAYS)))
    return with_tiers(problem, machine, "host", "disk"), machine


def copied_to(result: lt.Result) -> set[str]:
    assert result.plan is not None
    return {copy.dst for copy in result.plan.copies}


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", chosen([1, 3, 5, 14, 41, 51, 59, 101, 103, 107, 123, 126, 151, 157, 159, 161])
)
def test_a_further_tier_never_hurts(seed: int) -> None:
    problem, machine = on_a_bench(seed)
    full = solved(problem)
    assert full.objective is not None
    for names in (("host",), ("disk",), ()):
        part = solved(with_tiers(problem, machine, *names))
        if part.objective is not None:
            assert full.objective <= part.objective
            assert full.bound is not None
            assert full.bound <= part.objective


@pytest.mark.parametrize("seed", chosen([4, 10, 28, 36, 68, 72, 92, 102, 110, 126, 138, 146]))
def test_no_bound_is_above_what_exhaustive_search_finds(seed: int) -> None:
    """And of the schedules all but that of seed 68, which has none in partitioned stages, are fastest."""
    problem, _ = on_a_bench(seed)
    best = fastest_recomputation(problem.graph, problem.machine)
    result = solved(problem)
    assert best is not None
    assert result.bound is not None
    assert result.bound <= best
    assert result.objective == (None if seed == 68 else best)


@pytest.mark.slow
def test_both_tiers_together_are_better_than_each() -> None:
    problem, machine = on_a_bench(151)
    alone = [solved(with_tiers(problem, machine, name)).objective for name in ("host", "disk")]
    result = solved(problem)
    assert (alone, result.objective, result.status) == ([137, 137], 130, "optimal")
    assert copied_to(result) == {"memory", "host", "disk"}


def chain(memory: int, *, host: int, ways: str) -> lt.Recompute:
    """Values of one byte that come back from the disk in 4 or 5 ns, sooner than a run, 9 ns."""
    machine = bench(Random(3), ways, room=host)
    tiers = tuple(replace(tier, capacity=host if tier.name == "host" else None) for tier in machine.tiers)
    graph = lt.load("gen:backprop-chain?l=5&largest=2&forward=9&backward=9&seed=3")
    return lt.Recompute(graph, memory=memory, machine=replace(machine, tiers=tiers))


@pytest.mark.slow
@pytest.mark.parametrize("ways", ["star", "all"])
def test_a_host_without_room_is_as_good_as_none(ways: str) -> None:
    """Once the first tier was the only one that pages went to."""
    problem = chain(7, host=0, ways=ways)
    without = solved(with_tiers(problem, problem.machine, "disk"))
    result = solved(problem)
    assert result.objective == without.objective
    assert copied_to(result) == {"memory", "disk"}
    nowhere = solved(with_tiers(problem, problem.machine))
    assert nowhere.objective is None or result.objective is None or result.objective < nowhere.objective


@pytest.mark.slow
def test_the_disk_is_reached_through_the_host() -> None:
    """The host holds one value at a time; on the way to the disk and back they pass it one by one."""
    problem = chain(7, host=1, ways="path")
    result = solved(problem)
    assert "disk" in copied_to(result)
    without = solved(with_tiers(problem, problem.machine, "host"))
    assert result.objective is not None
    assert without.objective is None or result.objective < without.objective
    assert result.plan is not None
    assert lt.verify(problem.graph, result.plan).valid


def test_costs_are_by_channel_and_the_tiers_stand_by_their_distance() -> None:
    problem = chain(7, host=3, ways="path")
    turned = replace(problem.machine, tiers=(problem.machine.tiers[0], *problem.machine.tiers[:0:-1]))
    data = in_ns(recompute_data(problem))
    costs = paging(lt.Recompute(problem.graph, memory=7, machine=turned), data)
    assert costs.tiers == ("memory", "host", "disk")
    assert sorted(costs.ticks) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert costs.capacity[1:] == (3 // data.unit, None)
    assert costs.limited


def test_taped_chains_run_on_any_machine(tmp_path: Path) -> None:
    """Their modes name ``memory``, which is the first tier, and ``lost``, from where nothing comes back."""
    solve = ("solve", "recompute", "gen:taped-chain?l=5,seed=1", "--memory", "100", "--threads", "1")
    found = answer(*solve, "--machine", "a100-40g-pcie3", "--plan", "plan.json", cwd=tmp_path)
    alone = answer(*solve, cwd=tmp_path)
    assert found["verified"]
    assert found["objective"] == alone["objective"]
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]
    problem = lt.Recompute(lt.load("gen:taped-chain?l=3"), machine=lt.load_machine("a100-40g-pcie3"))
    assert [tier.name for tier in problem.machine.tiers] == ["memory", "host", "ssd", "lost"]
    assert problem.memory == lt.load_machine("a100-40g-pcie3").tiers[0].capacity
    assert {c.dst for c in problem.machine.channels if c.src == "host"} == {"memory"}
    assert not any("lost" in (c.src, c.dst) for c in problem.machine.channels)

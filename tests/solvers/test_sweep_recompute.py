"""The trade-off between memory and time of `recompute`."""

from __future__ import annotations

from pathlib import Path

import lowtide as lt
from lowtide.instances.formats.native_trade_off import trade_off_from_dict
from lowtide.solvers.recompute.trade_off import least_memory
from tests.commands import answer
from tests.oracles.brute_recompute import fastest_recomputation


def test_curve_of_a_small_chain_is_that_of_exhaustive_search() -> None:
    graph = lt.load("gen:backprop-chain?l=4&accounting=replace")
    curve = lt.sweep_memory(lt.Recompute(graph), 9, method="hetero-chain")
    assert curve.problem == "recompute"
    assert curve.least_memory == 2  # that it takes three cells, no look at the problem shows
    for point in curve.points:
        assert point.makespan == fastest_recomputation(graph, lt.Machine.single(point.memory))
        assert point.plan is not None
        assert lt.verify(graph, point.plan, rerun=True).peaks["memory"] == point.peak <= point.memory
    assert [p.memory for p in curve.points] == [3, 4, 5]
    assert curve.points[-1].optimal


def test_least_memory_is_where_nothing_impossible_is_seen() -> None:
    for spec in ("gen:backprop-chain?l=4&largest=9&seed=3", "gen:taped-chain?l=4&seed=1"):
        problem = lt.Recompute(lt.load(spec))
        least = least_memory(problem)
        assert lt.Recompute(problem.graph, least).impossible() is None
        assert lt.Recompute(problem.graph, least - 1).impossible() is not None


def test_a_memory_of_the_problem_is_the_largest_of_the_sweep() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=9&accounting=replace"), memory=5)
    curve = lt.sweep_memory(problem, 4, method="revolve")
    assert [p.memory for p in curve.points] == [3, 4, 5]
    assert curve.bound == problem.least_time


def test_command_line_sweeps(tmp_path: Path) -> None:
    spec = "gen:backprop-chain?l=9&accounting=replace"
    found = answer(
        "solve",
        "recompute",
        spec,
        "--method",
        "hetero-chain",
        "--sweep-memory",
        "4",
        "--plan",
        "plans",
        cwd=tmp_path,
    )
    curve = trade_off_from_dict(found)
    assert curve.problem == "recompute"
    assert [p.makespan for p in curve.points] == sorted((p.makespan for p in curve.points), reverse=True)
    assert len(list((tmp_path / "plans").iterdir())) == len(curve.points) >= 3

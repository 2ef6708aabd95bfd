"""Pictures of recomputation plans: runs, runs again, and the cells of each tier."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.models.errors import UsageError, VerificationError
from lowtide.models.plan import Plan
from lowtide.models.problems.recompute_machine import ONE_MEMORY
from tests.commands import answer

pytest.importorskip("matplotlib")
from matplotlib.text import Text

from lowtide.results import plot
from lowtide.results.figures.plot_cells import AGAIN, FIRST, cell_lanes


def solved(memory: int, method: str = "revolve", machine: lt.Machine = ONE_MEMORY) -> lt.Result:
    graph = lt.load("gen:backprop-chain?l=9&accounting=replace")
    return lt.solve(lt.Recompute(graph, memory, machine), method)


def test_there_are_as_many_cells_as_the_peak_and_all_runs_are_drawn() -> None:
    for memory in (3, 5, 11):
        result = solved(memory)
        assert isinstance(result.plan, Plan)
        assert result.graph is not None
        lanes = cell_lanes(result.graph, result.plan)
        verdict = lt.verify(result.graph, result.plan)
        assert len(lanes) == verdict.peaks["memory"]
        held = sum(bar.end - bar.start for lane in lanes for bar in lane.bars)
        points = [*verdict.profiles["memory"], (verdict.makespan, 0)]
        steps = pairwise(points)
        assert held == sum(used * (then - now) for (now, used), (then, _) in steps)
        for lane in lanes:
            bars = sorted(lane.bars)
            assert all(a.end <= b.start for a, b in pairwise(bars))
        runs, _ = plot.cells(result, figure=plot.new_figure())
        first, again = runs.collections
        assert (len(first.get_paths()), len(again.get_paths())) == (19, verdict.recomputed)


def test_legend_says_run_again_only_if_something_does() -> None:
    for memory, words in ((11, {FIRST}), (4, {FIRST, AGAIN})):
        runs, _ = plot.cells(solved(memory), figure=plot.new_figure())
        shown = {text.get_text() for text in runs.findobj(Text)}
        assert words <= shown
        assert ({FIRST, AGAIN} - words).isdisjoint(shown)


def test_tiers_have_cells_of_their_own() -> None:
    machine = lt.load_machine("a100-40g-pcie3")
    result = solved(3, "disk-revolve", machine=machine)
    assert result.plan is not None
    assert result.graph is not None
    names = [lane.name.split()[0] for lane in cell_lanes(result.graph, result.plan)]
    assert names.count("gpu") == 3
    assert set(names) <= {"gpu", "host", "ssd"}


def test_command_line_draws_cells(tmp_path: Path) -> None:
    spec = "gen:backprop-chain?l=9&accounting=replace"
    problem = ("recompute", spec, "--slots", "2", "--method", "revolve")
    answer("solve", *problem, "--plan", "p.json", cwd=tmp_path)
    told = answer("plot", "p.json", "--kind", "cells", "-o", "cells.svg", cwd=tmp_path)
    assert (told["ops"], told["runs"]) == (19, 30)
    assert (tmp_path / "cells.svg").stat().st_size > 1000


def test_what_cannot_be_drawn_is_refused() -> None:
    graph = lt.load("gen:backprop-chain?l=200&accounting=replace")
    with pytest.raises(UsageError, match="expected at most 120"):
        plot.cells(lt.solve(lt.Recompute(graph), "store-all"), figure=plot.new_figure())
    result = solved(4)
    assert result.plan is not None
    with pytest.raises(VerificationError):
        plot.cells(Plan(machine=result.plan.machine), result.graph, figure=plot.new_figure())

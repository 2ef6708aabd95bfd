"""The timeline of a placement: lanes, stalls and tiers as the verifier counts them."""

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import write_answer, write_graph
from lowtide.models.problems.placement import Placement
from lowtide.models.units import format_duration
from tests.commands import answer, refused, within
from tests.problems.placement import machine, random_graph, working_set

ANYWHERE = {"input": ("gpu", "host", "ssd")}


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, lt.Graph, lt.Plan]:
    folder = tmp_path_factory.mktemp("timeline")
    write_graph(random_graph(1), folder / "graph.json")
    graph = lt.load(folder / "graph.json")
    problem = Placement(graph, machine(working_set(graph) + 8, None), periodic=True, start=ANYWHERE)
    result = lt.solve(problem, "planner")
    assert result.plan is not None
    write_answer(result, str(folder / "plan.json"))
    return folder, graph, result.plan


def test_lanes_and_tiers(solved: tuple[Path, lt.Graph, lt.Plan]) -> None:
    _, graph, plan = solved
    lanes, *tiers = lt.plot.timeline(plan, graph, lt.plot.new_figure(), start=ANYWHERE)
    assert [ax.get_ylabel().split()[0] for ax in tiers] == ["gpu", "host", "ssd"]
    assert len({ax.get_xlim() for ax in (lanes, *tiers)}) == 1
    words = [text.get_text() for text in lanes.texts]
    names = [w for w in words if w in ("gpu0", "stalls") or "→" in w]
    assert names == ["gpu0", "stalls", "gpu → host", "host → gpu", "gpu → ssd", "ssd → gpu"]
    stall = lt.verify(graph, plan, start_tiers=ANYWHERE).stall
    assert stall > 0
    assert any(w.endswith(f"\n{format_duration(stall)}") for w in words)


def test_a_plan_without_stalls_has_no_lane_for_them() -> None:
    graph = random_graph(3)
    bench = machine(sum(t.nbytes for t in graph.tensors) + 10, None)
    result = lt.solve(Placement(graph, bench, periodic=True, start={"input": ("gpu",)}), "planner")
    axes = lt.plot.timeline(result, figure=lt.plot.new_figure(), start={"input": ("gpu",)})
    assert "stalls" not in {text.get_text() for text in axes[0].texts}


def test_nothing_is_drawn_of_a_plan_that_does_not_verify(solved: tuple[Path, lt.Graph, lt.Plan]) -> None:
    _, graph, plan = solved
    with pytest.raises(lt.VerificationError):
        lt.plot.timeline(plan, graph, lt.plot.new_figure(), start={"input": ("host",), "weight": ("host",)})


@pytest.mark.slow
def test_the_command_draws_it_for_plans_of_several_tiers(solved: tuple[Path, lt.Graph, lt.Plan]) -> None:
    folder = solved[0]
    said = ("plot", "plan.json", "--graph", "graph.json", "--start", "input=anywhere")
    found = answer(*said, "-o", "line.svg", cwd=folder)
    assert set(found["peaks"]) == {"gpu", "host", "ssd"}
    assert "stalls" in (folder / "line.svg").read_text()
    line = refused(*said, "--kind", "gantt", "-o", "other.svg", cwd=folder, run=within)
    assert "found --start with --kind gantt, which has no use for it" in line

"""``verify --start``: where the tensors of a plan may be at time 0."""

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import write_answer, write_graph, write_plan
from tests.commands import answer, refused, within
from tests.placement_cases import machine, random_graph, working_set

ALLOWED = ("--start", "input=gpu,host,ssd")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = random_graph(3)
    write_graph(graph, tmp_path / "graph.json")
    problem = lt.Placement(
        lt.load(tmp_path / "graph.json"),
        machine(working_set(graph) * 3, None),
        periodic=True,
        start={"input": ("gpu",)},
    )
    result = lt.solve(problem, "planner")
    write_answer(result, str(tmp_path / "plan.json"))
    return tmp_path


def test_a_plan_with_inputs_on_the_device_needs_the_permission(folder: Path) -> None:
    found = answer("verify", "plan.json", "--graph", "graph.json", cwd=folder, status=1)
    assert {v["kind"] for v in found["violations"]} >= {"start"}
    for allowed in (
        ALLOWED,
        ("--start", "input=anywhere"),
        ("--start", "input=gpu", "--start", "weight=anywhere"),
    ):
        assert answer("verify", "plan.json", "--graph", "graph.json", *allowed, cwd=folder)["valid"]
    elsewhere = within("verify", "plan.json", "--graph", "graph.json", "--start", "input=host", cwd=folder)
    assert elsewhere.returncode == 1


def test_a_plan_of_recompute_has_its_inputs_in_the_fast_memory(tmp_path: Path) -> None:
    spec = "gen:backprop-chain?l=4,machine=a100-40g-pcie3"
    answer(
        "solve",
        "recompute",
        spec,
        "--memory",
        "4",
        "--method",
        "h-revolve",
        "--plan",
        "plan.json",
        cwd=tmp_path,
    )
    assert answer("verify", "plan.json", "--start", "input=gpu", cwd=tmp_path)["valid"]
    found = answer("verify", "plan.json", cwd=tmp_path, status=1)
    assert [v["kind"] for v in found["violations"]] == ["start"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input=moon", "--start input=moon: found tier 'moon', expected one of gpu, host, ssd"),
        ("dust=gpu", "--start dust=gpu: found kind 'dust', expected one of"),
        ("input", "found 'input', expected KEY=VALUE"),
        ("input=", "found tier ''"),
    ],
)
def test_unknown_kinds_and_tiers_are_refused(folder: Path, text: str, message: str) -> None:
    line = refused("verify", "plan.json", "--graph", "graph.json", "--start", text, cwd=folder)
    assert message in line


def test_an_order_has_no_start(folder: Path) -> None:
    (folder / "order.txt").write_text(" ".join(map(str, range(14))))
    line = refused("verify", "graph.json", "--order", "order.txt", *ALLOWED, cwd=folder)
    assert "found --start with --order" in line


def test_a_plan_of_recompute_whose_start_does_not_fit_is_rejected_as_by_its_problem(tmp_path: Path) -> None:
    """Ten bytes are read by the first run and go as it starts, under ``replace``."""
    x, y = lt.Tensor(name="x", nbytes=10, initial=True), lt.Tensor(name="y", nbytes=5, final=True)
    graph = lt.Graph(
        name="begin",
        tensors=(x, y),
        ops=(lt.Op(name="a", reads=(0,), writes=(1,)),),
        accounting=lt.Accounting.REPLACE,
    )
    write_graph(graph, tmp_path / "graph.json")
    for memory, status in ((10, 0), (9, 1)):
        problem = lt.Recompute(graph, memory=memory)
        judged = problem.judge(problem.read([0]))
        assert judged.plan is not None
        write_plan(judged.plan, tmp_path / "plan.json")
        found = answer("verify", "plan.json", "--graph", "graph.json", cwd=tmp_path, status=status)
        assert found["valid"] == (not judged.violations) == (status == 0)
    (violation,) = found["violations"]
    assert (violation["kind"], violation["time"], violation["tier"]) == ("capacity", 0, "memory")
    assert violation["message"] == (
        "tier 'memory' holds 10 bytes at the start, expected at most its capacity 9"
    )

"""Where the tensors of a plan may be at time 0: what it says, and what ``--start`` asks."""

import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import write_graph, write_plan
from tests.commands import answer, refused, within
from tests.problems.placement import machine, random_graph, working_set

ALLOWED = ("--start", "input=gpu,host,ssd")
SOLVE = (
    "solve",
    "placement",
    "graph.json",
    "--machine",
    "bench.json",
    "--method",
    "planner",
    "--plan",
    "plan.json",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A graph, a machine, and a plan that starts the input on the device, as its question allows."""
    graph = random_graph(3)
    write_graph(graph, tmp_path / "graph.json")
    bench = machine(working_set(graph) * 3, None)
    (tmp_path / "bench.json").write_text(json.dumps(bench.to_dict()))
    answer(*SOLVE, "--periodic", "--start", "input=gpu", cwd=tmp_path)
    return tmp_path


def says(folder: Path, starts: dict[str, list[str]] | None) -> None:
    """Change what the plan says of its question."""
    data = json.loads((folder / "plan.json").read_text())
    data.pop("start_tiers", None)
    (folder / "plan.json").write_text(json.dumps(data if starts is None else {**data, "start_tiers": starts}))


def test_a_plan_verifies_and_lowers_alone(folder: Path) -> None:
    found = answer("verify", "plan.json", cwd=folder)
    assert (found["valid"], found["start"]) == (True, "input in gpu, others in any tier (as the plan says)")
    lowered = answer(
        "solve", "offsets", "plan.json", "--method", "greedy", "--plan", "whole.json", cwd=folder
    )
    assert lowered["verified"]
    assert answer("verify", "whole.json", cwd=folder)["valid"]
    assert "start tiers input in gpu, others" in " ".join(
        within("verify", "whole.json", cwd=folder).stdout.split()
    )


def test_a_plan_that_says_nothing_has_its_inputs_in_the_last_tier(folder: Path) -> None:
    says(folder, None)
    found = answer("verify", "plan.json", cwd=folder, status=1)
    assert {v["kind"] for v in found["violations"]} == {"start"}
    assert found["start"] == "input in ssd, others in any tier (the plan does not say)"
    assert "invalid plan" in refused("solve", "offsets", "plan.json", cwd=folder)
    for allowed in (
        ALLOWED,
        ("--start", "input=anywhere"),
        ("--start", "input=gpu", "--start", "weight=anywhere"),
    ):
        assert answer("verify", "plan.json", *allowed, cwd=folder)["valid"]


def test_a_plan_cannot_excuse_what_the_question_forbids(folder: Path) -> None:
    """It starts where the question allows, but says that it might have started elsewhere: another answer."""
    for stated, asked, words in (
        ({"input": ["gpu"]}, "input=host", "starts in tier 'gpu', expected ['host']"),
        (
            {"input": ["gpu", "host"]},
            "input=gpu",
            "may start in tier 'host', expected ['gpu'] as in the question",
        ),
        ({}, "input=gpu", "may start in tier 'ssd', expected ['gpu'] as in the question"),
    ):
        says(folder, stated)
        found = answer("verify", "plan.json", "--start", asked, cwd=folder, status=1)
        assert {v["kind"] for v in found["violations"]} == {"start"}
        assert any(words in v["message"] for v in found["violations"])
    says(folder, {"input": ["gpu"], "weight": ["gpu", "host"]})
    assert answer("verify", "plan.json", *ALLOWED, cwd=folder, status=0)["valid"]


def test_plans_of_wider_questions_are_no_hints(folder: Path) -> None:
    says(folder, {"input": ["gpu", "ssd"]})
    line = refused(*SOLVE[:-2], "--periodic", "--start", "input=gpu", "--hint", "plan.json", cwd=folder)
    assert (
        "hint: plan, start_tiers: tensors of kind 'input' may start in tier 'ssd', expected ['gpu']" in line
    )
    assert answer(*SOLVE[:-2], "--periodic", "--hint", "plan.json", cwd=folder)["verified"]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ([], "start_tiers: found [], expected an object from kinds of tensors to lists of tiers"),
        ({"inputs": ["gpu"]}, "start_tiers: found unknown kind 'inputs', did you mean input"),
        ({"input": "gpu"}, 'start_tiers, input: found "gpu", expected a list of tiers'),
        ({"input": ["moon"]}, 'start_tiers, input: found "moon", expected one of gpu, host, ssd'),
        ({"input": [0]}, "start_tiers, input: found 0, expected one of gpu, host, ssd"),
        ({"input": ["gpu", "gpu"]}, "start_tiers, input: found tier 'gpu' again, expected it once"),
    ],
)
def test_wrong_statements_are_refused(folder: Path, stated: object, message: str) -> None:
    says(folder, stated)  # type: ignore[arg-type]
    assert message in refused("verify", "plan.json", cwd=folder)


def test_solve_says_where_things_may_start(folder: Path) -> None:
    for arguments, starts, words in (
        (("--periodic",), {}, "any tier"),
        ((), {"input": ["ssd"]}, "input in ssd, others in any tier"),
        (
            ("--start", "input=host,ssd", "--start", "weight=gpu,host"),
            {"input": ["host", "ssd"], "weight": ["gpu", "host"]},
            "input in host or ssd, weight in gpu or host, others in any tier",
        ),
    ):
        assert answer(*SOLVE, *arguments, cwd=folder)["start_tiers"] == starts
        assert f"start tiers {words} peak" in " ".join(within(*SOLVE, *arguments, cwd=folder).stdout.split())
        assert answer("verify", "plan.json", cwd=folder)["valid"]


def test_a_plan_of_recompute_says_that_its_inputs_are_in_the_fast_memory(tmp_path: Path) -> None:
    spec = ("gen:backprop-chain?l=4,machine=a100-40g-pcie3", "--memory", "4", "--method", "h-revolve")
    answer("solve", "recompute", *spec, "--plan", "plan.json", cwd=tmp_path)
    assert answer("verify", "plan.json", cwd=tmp_path)["valid"]
    assert answer("verify", "plan.json", "--start", "input=gpu", cwd=tmp_path)["valid"]
    found = answer("verify", "plan.json", "--start", "input=ssd", cwd=tmp_path, status=1)
    assert {v["kind"] for v in found["violations"]} == {"start"}


def test_a_plan_of_minio_says_that_its_inputs_are_in_the_memory(tmp_path: Path) -> None:
    x = lt.Tensor(name="x", nbytes=3, kind="input", initial=True)
    y = lt.Tensor(name="y", nbytes=2, final=True)
    graph = lt.Graph(name="one", tensors=(x, y), ops=(lt.Op(name="a", reads=(0,), writes=(1,)),))
    problem = lt.MinIO(graph, memory=5)
    judged = problem.judge(problem.read(lt.Traversal(order=(0,))))
    assert judged.objective == 0
    assert judged.plan is not None
    write_graph(graph, tmp_path / "graph.json")
    write_plan(judged.plan, tmp_path / "plan.json")
    assert answer("verify", "plan.json", "--graph", "graph.json", cwd=tmp_path)["valid"]


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

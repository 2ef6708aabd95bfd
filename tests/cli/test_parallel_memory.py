"""``lowtide solve parallel-memory``: the largest memory, edges that bound it, the graph with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import lowtide as lt
from tests.commands import answer, within

SPEC = "gen:randwire?n=16&seed=1"


def test_edges_are_applied_and_the_new_graph_needs_no_more(tmp_path: Path) -> None:
    before = answer("solve", "parallel-memory", SPEC, "--simulate", "50", cwd=tmp_path)
    peak = answer("solve", "peak", SPEC, cwd=tmp_path)["objective"]
    assert before["status"] == "optimal"
    assert before["simulated"]["before"]["most"] <= before["objective"]
    bound = (peak + before["objective"]) // 2
    arguments = ("--bound", f"{bound}B", "--apply", "new.json.gz", "--simulate", "50", "--plan", "plan.json")
    found = answer("solve", "parallel-memory", SPEC, *arguments, cwd=tmp_path)
    assert (found["problem"], found["verified"]) == ("memory-edges", True)
    assert found["edges"]
    assert found["simulated"]["after"]["above_bound"] == 0
    assert answer("solve", "parallel-memory", "new.json.gz", cwd=tmp_path)["objective"] <= bound
    assert within("verify", "plan.json", cwd=tmp_path).returncode == 0


def test_edges_for_some_processors_and_their_certificate(tmp_path: Path) -> None:
    most = answer(
        "solve", "parallel-memory", SPEC, "--processors", "2", "--certificate", "most.json", cwd=tmp_path
    )
    assert (most["proof"], most["certificate"]["checked"]) == ("exact", True)
    bound = most["objective"] - 5
    arguments = (
        "--bound",
        f"{bound}B",
        "--processors",
        "2",
        "--simulate",
        "30",
        "--certificate",
        "edges.json",
    )
    found = answer("solve", "parallel-memory", SPEC, *arguments, "--plan", "plan.json", cwd=tmp_path)
    assert found["edges"]
    assert found["simulated"]["after"]["above_bound"] == 0
    judged = answer("verify", "plan.json", "--certificate", "edges.json", cwd=tmp_path)
    assert (judged["valid"], judged["kind"], judged["plan_valid"]) == (True, "flow", True)
    assert judged["peak"] <= judged["bound"] <= bound
    # a plan on any number of processors is no schedule of the certificate for two
    answer("solve", "parallel-memory", SPEC, "--plan", "wide.json", cwd=tmp_path)
    refused = within("verify", "wide.json", "--certificate", "most.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "expected at most 2" in refused.stderr


def test_hints_are_verified_and_kept(tmp_path: Path) -> None:
    memory = answer("solve", "peak", SPEC, "--plan", "order.json", cwd=tmp_path)["objective"]
    asked = ("solve", "parallel-memory", SPEC, "--bound", f"{memory + 10}B")
    files = ("--apply", "new.json", "--certificate", "proof.json", "--plan", "plan.json")
    done = within(*asked, *files, "--json", cwd=tmp_path)
    (tmp_path / "record.json").write_text(done.stdout)
    first = json.loads(done.stdout)
    for hint in ("new.json", "proof.json", "record.json"):
        again = answer(*asked, "--method", "max-size", "--hint", hint, cwd=tmp_path)
        assert again["objective"] <= first["objective"], hint
        assert again["trace"][0][1] == first["objective"]
    chain = answer(*asked, "--method", "max-size", "--hint", "order.json", cwd=tmp_path)
    assert chain["trace"][0][1] == sum(op.duration_ns for op in lt.load(SPEC).ops)
    for hint in ("new.json", "plan.json", "order.json"):
        refused = within("solve", "memory-edges", f"{SPEC}&bound={memory - 1}B", "--hint", hint, cwd=tmp_path)
        assert refused.returncode == 2
        assert "the flow proves" in refused.stderr
    (tmp_path / "other.json").write_text('{"format": "lowtide/buffers"}')
    refused = within(*asked, "--hint", "other.json", cwd=tmp_path)
    assert "expected a plan, a graph, a certificate" in refused.stderr


def test_people_see_what_runs_and_which_edges(tmp_path: Path) -> None:
    shown = within("solve", "parallel-memory", SPEC, "--processors", "2", cwd=tmp_path).stdout
    assert "running" in shown
    shown = within("solve", "parallel-memory", f"{SPEC}&bound=1", "--bound", "1GiB", cwd=tmp_path).stdout
    assert re.search(r"^edges +0$", shown, re.M)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("peak", SPEC, "--bound", "3"), "found --bound with problem peak"),
        (("memory-edges", SPEC), "found no option bound (edges to add"),
        (("memory-edges", f"{SPEC}&bound=150&processors=2", "--method", "milp"), "knows no number"),
        (("parallel-memory", f"{SPEC}&processors=0"), "processors"),
        (("parallel-memory", SPEC, "--bound", "300B", "--apply", "new.txt"), "expected .json or .json.gz"),
        (("parallel-memory", SPEC, "--processors", "cpu=2"), "expected an integer >= 1"),
    ],
)
def test_wrong_questions_exit_with_two(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = within("solve", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr

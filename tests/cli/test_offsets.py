"""The verbs on buffers and allocations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import answer, refused, within

SIX = """id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
b6,21,22,9
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "six.csv").write_text(SIX)
    return tmp_path


def test_show(folder: Path) -> None:
    found = answer("show", "six.csv", "--largest", "1", cwd=folder)
    assert (found["buffers"], found["bytes"]) == (6, 29)
    expected = {"buffers": 6, "bytes": 29, "parts": 2, "sections": 4, "load": 12, "bound": 12}
    assert found["pools"] == {"": expected | {"capacity": None}}
    assert [b["id"] for b in found["largest"]] == ["b6"]
    assert "largest buffers" in within("show", "six.csv", cwd=folder).stdout


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "json", "json.gz"])
def test_solution_of_a_file_verifies(folder: Path, ending: str) -> None:
    plan = f"solution.{ending}"
    found = answer("solve", "offsets", "six.csv", "--threads", "1", "--plan", plan, cwd=folder)
    assert (found["status"], found["objective"], found["bound"]) == ("optimal", 12, 12)
    assert (found["verified"], found["plan"]) == (True, plan)
    verdict = answer("verify", plan, cwd=folder)
    assert (verdict["valid"], verdict["heights"], verdict["gap"]) == (True, {"": 12}, 0)
    assert answer("verify", plan, "--buffers", "six.csv", cwd=folder)["height"] == 12
    hinted = ("--hint", plan, "--method", "greedy")
    assert answer("solve", "offsets", "six.csv", *hinted, cwd=folder)["objective"] == 12


def test_capacity(folder: Path) -> None:
    solve = ("solve", "offsets", "six.csv", "--threads", "1", "--capacity")
    assert answer(*solve, "12", cwd=folder)["status"] in ("feasible", "optimal")
    found = answer(*solve, "11", cwd=folder, status=1)
    assert (found["status"], found["objective"], found["bound"]) == ("infeasible", None, 12)
    assert "need at least 12 bytes, more than the capacity 11" in found["detail"]


def test_plan_takes_its_allocation(folder: Path) -> None:
    spec = "catalogue:harpoon"
    answer("solve", "peak", spec, "--threads", "1", "--plan", "plan.json", cwd=folder)
    found = answer("solve", "offsets", "plan.json", "--threads", "1", "--plan", "whole.json", cwd=folder)
    verdict = answer("verify", "whole.json", cwd=folder)
    assert verdict["heights"] == {"memory": found["objective"]}
    assert verdict["peaks"]["memory"] <= found["objective"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "json"])
def test_in_place_pairs_stay_with_the_solution(folder: Path, ending: str) -> None:
    """A chain of ops that all work in place needs one tensor; without the pairs two are on one address."""
    graph = {
        "format": "lowtide/graph",
        "version": 1,
        "name": "in place",
        "tensors": [{"name": f"y {i}", "nbytes": 8, "final": i == 3} for i in range(4)],
        "ops": [
            {
                "name": f"relu {i}",
                "reads": [i - 1] * (i > 0),
                "writes": [i],
                "inplace": [[i - 1, i]] * (i > 0),
            }
            for i in range(4)
        ],
    }
    (folder / "graph.json").write_text(json.dumps(graph))
    answer("solve", "peak", "graph.json", "--threads", "1", "--plan", "plan.json", cwd=folder)
    solution = f"solution.{ending}"
    found = answer("solve", "offsets", "plan.json", "--threads", "1", "--plan", solution, cwd=folder)
    assert (found["status"], found["objective"]) == ("optimal", 8)
    verdict = answer("verify", solution, cwd=folder)
    assert verdict["valid"]
    if ending != "json":
        assert answer("verify", solution, "--buffers", "plan.json", cwd=folder)["height"] == 8
        again = answer("solve", "offsets", solution, "--threads", "1", cwd=folder)
        assert (again["status"], again["objective"]) == ("optimal", 8)


def test_wrong_allocation_names_the_pair(folder: Path) -> None:
    text = SIX.replace("size\n", "size,offset\n").replace("4\n", "4,0\n").replace("9\n", "9,0\n")
    (folder / "wrong.csv").write_text(text)
    verdict = answer("verify", "wrong.csv", cwd=folder, status=1)
    pairs = {tuple(v["buffers"]) for v in verdict["violations"]}
    assert ("b1", "b3") in pairs
    assert "are both alive from time" in within("verify", "wrong.csv", cwd=folder).stdout


@pytest.mark.slow
def test_pictures(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    record = answer("solve", "offsets", "six.csv", "--method", "greedy", "--plan", "s.csv", cwd=folder)
    (folder / "record.json").write_text(json.dumps(record))
    for item in ("s.csv", "record.json"):
        found = answer("plot", item, "-o", "a.svg", cwd=folder)
        assert found["count"] == 6
        assert (folder / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("solve", "peak", "gen:chain", "--capacity", "3"), "found --capacity with problem peak"),
        (("solve", "peak", "gen:chain", "--plan", "x.csv"), "found ending .csv, expected .json"),
        (("solve", "offsets", "six.csv?capacity=x"), "option capacity"),
        (("solve", "offsets", "none.csv"), "none.csv: found no such file"),
        (("solve", "offsets", "six.csv", "--hint", "six.csv"), "found no offset of buffer 'b1'"),
        (("verify", "six.csv"), "found no offset of buffer 'b1'"),
        (("verify", "gen:chain", "--buffers", "six.csv"), "found --buffers without an allocation"),
        (("plot", "six.csv", "-o", "x.svg"), "found no offset of buffer 'b1'"),
    ],
)
def test_bad_input(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments, cwd=folder, run=within)

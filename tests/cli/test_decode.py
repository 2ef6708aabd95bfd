"""``lowtide decode``: solutions of exported models come back as verified plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.__main__ import main

SPEC = "catalogue:diamond"


def solution(path: Path, order: tuple[int, ...]) -> None:
    """Write the values of an order: y[i][s] is 1 if op i is one of the first s."""
    built = lt.build(lt.Peak(lt.load(SPEC)), "cpsat")
    lines = []
    for name in built.variables:
        if name.startswith("y["):
            i, s = map(int, name[2:-1].split("]["))
            lines.append(f"{name} {int(order.index(i) < s)}")
    path.write_text("\n".join(lines))


def test_a_solution_becomes_a_verified_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, plan = tmp_path / "solution.txt", tmp_path / "plan.json"
    solution(path, (0, 2, 1, 3))
    assert main(["decode", "peak", SPEC, str(path), "--method", "cpsat", "--plan", str(plan)]) == 0
    text = capsys.readouterr().out
    assert "verified   valid" in text
    assert lt.load_plan(plan)[0].order == (0, 2, 1, 3)
    assert main(["decode", "peak", SPEC, str(path), "--method", "cpsat", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["status"], record["bound"], record["verified"]) == ("feasible", None, True)
    assert record["method"] == "cpsat (solved elsewhere)"


def test_a_file_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "solution.txt"
    path.write_text("nothing 1\n")
    assert main(["decode", "peak", SPEC, str(path), "--method", "cpsat"]) == 2
    assert "found no value of a variable, expected lines such as" in capsys.readouterr().err
    assert main(["decode", "peak", SPEC, str(path), "--method", "greedy"]) == 2
    assert "expected one that builds a model: cpsat" in capsys.readouterr().err

"""Certificates of placements as a user makes and confirms them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lowtide.instances import write_graph
from tests.commands import answer, refused, within
from tests.models.verifier.certificates import random_placement
from tests.problems.placement import machine, random_graph, working_set

SAID = ("solve", "placement", "g.json?start.input=anywhere", "--machine", "m.json", "--threads", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = random_graph(4)
    write_graph(graph, tmp_path / "g.json")
    bench = machine(working_set(graph) + 6, 20)
    (tmp_path / "m.json").write_text(json.dumps(bench.to_dict()))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("period", [("--periodic",), ()])
@pytest.mark.parametrize("method", ["lp-bound", "auto"])
def test_a_bound_is_proved_and_confirmed(folder: Path, method: str, period: tuple[str, ...]) -> None:
    said = (*SAID, *period, "--method", method, "--time-limit", "1")
    found = answer(*said, "--plan", "p.json", "--certificate", "c.json.gz", cwd=folder)
    told = found["certificate"]
    assert (told["path"], told["kind"], told["checked"]) == ("c.json.gz", "prices", True)
    proved = answer("verify", "--certificate", "c.json.gz", cwd=folder)
    assert (proved["valid"], proved["problem"], proved["unit"]) == (True, "placement", "ns")
    assert proved["bound"] <= found["bound"]
    assert (told["detail"] == "") is (proved["bound"] == found["bound"])
    if found["plan"] is None:
        return
    both = answer("verify", "p.json", "--certificate", "c.json.gz", cwd=folder)
    assert (both["valid"], both["plan_valid"], both["time"]) == (True, True, found["objective"])
    assert both["optimal"] is (found["objective"] == proved["bound"])
    shown = within("verify", "p.json", "--certificate", "c.json.gz", cwd=folder).stdout
    assert "byte paths" in shown
    assert "gap" in shown


def test_windows_are_confirmed_one_by_one(folder: Path) -> None:
    problem = random_placement(6, periodic=False)
    write_graph(problem.graph, folder / "g.json")
    (folder / "m.json").write_text(json.dumps(problem.machine.to_dict()))
    found = answer(*SAID, "--method", "lp-bound", "--certificate", "c.json", cwd=folder)
    assert (found["bound_kind"], found["certificate"]["kind"]) == ("windows in whole ns", "windows")
    proved = answer("verify", "--certificate", "c.json", cwd=folder)
    assert (proved["valid"], proved["bound"]) == (True, found["bound"])
    assert "byte paths" in within("verify", "--certificate", "c.json", cwd=folder).stdout
    data = json.loads((folder / "c.json").read_text())
    data["proof"]["windows"] *= 2
    (folder / "twice.json").write_text(json.dumps(data))
    assert "charged twice" in answer("verify", "--certificate", "twice.json", cwd=folder, status=1)["witness"]


def test_false_claims_and_other_questions(folder: Path) -> None:
    said = (*SAID, "--periodic", "--method", "lp-bound")
    answer(*said, "--plan", "p.json", "--certificate", "c.json.gz", cwd=folder)
    data = json.loads(gzip.decompress((folder / "c.json.gz").read_bytes()))
    (folder / "false.json").write_text(json.dumps({**data, "bound": data["bound"] + 1}))
    found = answer("verify", "--certificate", "false.json", cwd=folder, status=1)
    assert "which the prices prove" in found["witness"]
    smaller = {**data["setting"]["machine"], "tiers": [{"name": "gpu", "capacity": 1}]}
    (folder / "bad.json").write_text(json.dumps({**data, "setting": {**data["setting"], "machine": smaller}}))
    assert "bad.json, setting, machine" in refused(
        "verify", "--certificate", "bad.json", cwd=folder, run=within
    )
    other = {**data["setting"], "periodic": False}
    (folder / "single.json").write_text(json.dumps({**data, "setting": other}))
    line = refused("verify", "p.json", "--certificate", "single.json", cwd=folder, run=within)
    assert "found a plan with a period, expected none" in line
    (folder / "peak.json").write_text(json.dumps({**data, "problem": "peak"}))
    assert "found unknown key 'setting'" in refused(
        "verify", "--certificate", "peak.json", cwd=folder, run=within
    )

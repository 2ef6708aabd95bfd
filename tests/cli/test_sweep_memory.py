"""``lowtide solve makespan … --sweep-memory N``: table, JSON, plans, pictures, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowtide.instances.formats.native_trade_off import trade_off_from_dict
from tests.commands import answer, refused, within

SPEC = "gen:sp?n=8&seed=1"
SWEEP = ("solve", "makespan", SPEC, "--processors", "2", "--threads", "1", "--sweep-memory", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a curve and its plans."""
    here = tmp_path_factory.mktemp("sweep")
    record = answer(*SWEEP, "--plan", "plans", cwd=here)
    (here / "curve.json").write_text(json.dumps(record))
    return here


def test_json_has_points_and_runs(folder: Path) -> None:
    record = json.loads((folder / "curve.json").read_text())
    assert [(p["memory"], p["makespan"], p["bound"]) for p in record["points"]] == [
        (36, 7, 7),
        (43, 6, 6),
        (51, 5, 5),
    ]
    assert {p["status"] for p in record["points"]} == {"optimal"}
    assert [r["problem"] for r in record["runs"]] == ["peak", "makespan", "makespan", "makespan"]
    assert all(r["verified"] for r in record["runs"])
    curve = trade_off_from_dict(record)
    assert curve.front == ((36, 7), (42, 6), (51, 5))


def test_plans_keep_the_memory_they_are_named_by(folder: Path) -> None:
    record = json.loads((folder / "curve.json").read_text())
    for point in record["points"]:
        assert point["plan"] == f"plans/{point['memory']}.json"
        verdict = answer("verify", point["plan"], cwd=folder)
        assert (verdict["makespan"], verdict["peaks"]) == (point["makespan"], {"memory": point["peak"]})


def test_table_for_people(tmp_path: Path) -> None:
    shown = within(*SWEEP, "--method", "list", "--quiet", cwd=tmp_path).stdout
    assert "no schedule below    36 B (proved)" in shown
    head, first, *_ = shown[shown.index("\nmemory") + 1 :].splitlines()
    assert head.split() == ["memory", "peak", "makespan", "bound", "gap", "status"]
    assert first.split()[:4] == ["36", "B", "36", "B"]


@pytest.mark.slow
def test_curves_are_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = answer("plot", "curve.json", "-o", str(tmp_path / "curve.svg"), "--title", "mine", cwd=folder)
    assert (found["memories"], found["schedules"]) == (3, 3)
    assert "mine" in (tmp_path / "curve.svg").read_text()
    answer(*SWEEP, "--method", "list", "--plot", "direct.png", cwd=tmp_path)
    assert (tmp_path / "direct.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("solve", "peak", SPEC, "--sweep-memory", "3"), "found --sweep-memory with problem peak, expected"),
        (("solve", "makespan", SPEC, "--sweep-memory", "1"), "found '1', expected an integer >= 2"),
        ((*SWEEP, "--memory", "4GiB"), "found --memory with --sweep-memory, which has no use for it"),
        ((*SWEEP, "--hint", "p.json"), "found --hint with --sweep-memory, which has no use for it"),
        ((*SWEEP, "--plan", "curve.json"), "--plan: found the file curve.json, expected a folder"),
        ((*SWEEP, "--plan", "no/such"), "--plan: found no folder above no/such, expected an existing one"),
        ((*SWEEP, "--plot", "x.gif"), "found ending '.gif'"),
        ((*SWEEP[:5], "--plot", "x.svg"), "found --plot without --sweep-memory, expected both"),
        ((*SWEEP, "--method", "magic"), "magic"),
        (("plot", "curve.json", "--kind", "gantt", "-o", "x.svg"), "found --kind gantt with a trade-off"),
        (("plot", "curve.json", "--tier", "gpu", "-o", "x.svg"), "found --tier with a trade-off curve"),
        (
            ("plot", "plans/36.json", "--kind", "trade-off", "-o", "x.svg"),
            "found --kind trade-off with",
        ),
        (("plot", "none.json", "--kind", "trade-off", "-o", "x.svg"), "none.json: found no such file"),
    ],
)
def test_what_does_not_go_together_exits_with_two(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words, cwd=folder, run=within)


def test_memory_of_the_instance_is_refused(tmp_path: Path) -> None:
    words = ("solve", "makespan", f"{SPEC}&memory=40", "--sweep-memory", "3")
    assert "found memory 40, expected a problem without one" in refused(*words, cwd=tmp_path, run=within)

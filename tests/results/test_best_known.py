"""The best-known file only ever improves, and only by what can be verified."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lowtide import load
from lowtide.models.errors import InstanceError
from lowtide.results.audits.best_known import (
    BestKnown,
    Mark,
    find_best_known,
    read_best_known,
    write_best_known,
)
from lowtide.results.audits.evidence import read_claims
from lowtide.results.audits.improvements import Update as Changes
from lowtide.results.audits.improvements import portable_name, update
from tests.commands import answer
from tests.experiments import Record, proved, run

SPEC = "catalogue:two-branches"
QUESTION = (load(SPEC).sha256, "peak")


def improve(tmp_path: Path) -> Changes:
    """Update a file by an experiment."""
    return update(read_claims([tmp_path / "out"]).claims, tmp_path / "known.json")


def known(tmp_path: Path) -> BestKnown:
    return read_best_known(tmp_path / "known.json")[QUESTION]


def values(tmp_path: Path) -> tuple[int | None, int | None]:
    entry = known(tmp_path)
    return tuple(None if mark is None else mark.value for mark in (entry.objective, entry.bound))  # type: ignore[return-value]


def test_first_update_writes_value_method_date_and_version(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "reference", bound=11, proof="exact")
    done = improve(tmp_path)
    assert [(c.side, c.old, c.new) for c in done.changes] == [("objective", None, 16), ("bound", None, 11)]
    run_of = {"method": "reference", "date": "2026-11-20", "version": "0.1.0"}
    assert known(tmp_path) == BestKnown(
        instance=SPEC,
        sha256=QUESTION[0],
        problem="peak",
        unit="bytes",
        objective=Mark(value=16, **run_of),
        bound=Mark(value=11, proof="exact", **run_of),
    )


def test_each_side_improves_by_itself_and_never_gets_worse(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "reference", bound=11)
    improve(tmp_path)
    run(tmp_path / "out", SPEC, "greedy", bound=9)
    done = improve(tmp_path)
    assert [(c.side, c.old, c.new, c.method) for c in done.changes] == [("objective", 16, 12, "greedy")]
    assert values(tmp_path) == (12, 11)
    before = (tmp_path / "known.json").read_bytes()
    for path in (tmp_path / "out").rglob("*.json"):
        path.unlink()
    run(tmp_path / "out", SPEC, "reference", bound=3)
    assert improve(tmp_path) == Changes([], [])
    assert (tmp_path / "known.json").read_bytes() == before


def test_optimum_is_taken_once(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "greedy", change=proved)
    improve(tmp_path)
    assert values(tmp_path) == (12, 12)
    (tmp_path / "out" / "records").rename(tmp_path / "old")
    run(tmp_path / "out", SPEC, "beam", change=proved)
    assert improve(tmp_path) == Changes([], [])


def test_exact_proof_takes_the_place_of_a_floating_one(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "reference", bound=11, proof="floating")
    improve(tmp_path)
    run(tmp_path / "out", SPEC, "greedy", bound=11, proof="exact")
    improve(tmp_path)
    bound = known(tmp_path).bound
    assert bound is not None
    assert (bound.proof, bound.method) == ("exact", "greedy")
    run(tmp_path / "out", SPEC, "reference", name="00" * 8, bound=11, proof="floating")
    assert improve(tmp_path).changes == []


def test_objective_without_a_plan_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "greedy", keep_plan=False, bound=10)
    done = improve(tmp_path)
    assert values(tmp_path) == (None, 10)
    assert "without a plan" in done.refused[0]


def falsify(folder: Path, record: Record) -> None:
    path = folder / record["plan"]
    plan = json.loads(gzip.decompress(path.read_bytes()))
    plan["runs"].pop()
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))


def test_plan_that_does_not_verify_is_refused_and_the_next_best_taken(tmp_path: Path) -> None:
    falsify(tmp_path / "out", run(tmp_path / "out", SPEC, "greedy", change=proved))
    run(tmp_path / "out", SPEC, "reference", bound=10)
    done = improve(tmp_path)
    assert values(tmp_path) == (16, 10)
    assert len(done.refused) == 2  # the objective and the bound of the false record
    assert all("does not verify" in line for line in done.refused)


def test_objective_that_is_not_the_plans_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "reference", objective=11)
    done = improve(tmp_path)
    assert done.changes == []
    assert "objective is 16" in done.refused[0]
    assert not (tmp_path / "known.json").exists()


def test_bound_of_a_failed_run_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "reference", bound=10, status="failed")
    done = improve(tmp_path)
    assert done.changes == []
    assert len(done.refused) == 2


def test_contradiction_leaves_the_entry_alone(tmp_path: Path) -> None:
    run(tmp_path / "out", SPEC, "greedy")
    improve(tmp_path)
    run(tmp_path / "out", SPEC, "reference", bound=13)
    done = improve(tmp_path)
    assert done.changes == []
    assert "bound 13 (reference) above objective 12 (greedy)" in done.refused[0]
    assert values(tmp_path) == (12, None)


def test_same_knowledge_gives_the_same_bytes(tmp_path: Path) -> None:
    specs = [SPEC, "catalogue:diamond", "gen:chain?n=3"]
    files = []
    for k, order in enumerate((specs, specs[::-1])):
        folder = tmp_path / str(k)
        for spec in order:
            run(folder / "out", spec)
            improve(folder)
        files.append((folder / "known.json").read_bytes())
    assert files[0] == files[1]
    assert files[0].count(b"\n") == 9


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("onnx:resnet50?train=1", "onnx:resnet50?train=1"),
        ("data:g10/vit.json.gz", "data:g10/vit.json.gz"),
        ("/home/me/graph.json.gz", "graph.json.gz"),
        ("native:/home/me/graph", "graph"),
        ("../nets/net.onnx?batch=4", "net.onnx?batch=4"),
    ],
)
def test_names_hold_on_other_machines(spec: str, name: str) -> None:
    assert portable_name(spec) == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bound": {"value": -1, "method": "m", "date": None, "version": None}}, "value"),
        ({"bound": {"value": 1, "method": "m", "date": None, "version": None, "proof": "yes"}}, "proof"),
        ({"objective": {"value": 1.5, "method": "m", "date": None, "version": None}}, "1.5"),
        ({"colour": 1}, "colour"),
        ({"instance": None}, "instance"),
    ],
)
def test_wrong_file_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    entry = {"instance": "g", "instance_sha256": "0" * 64, "problem": "peak", "unit": "bytes"}
    data = {
        "format": "lowtide/best-known",
        "version": 1,
        "entries": [{**entry, "objective": None, "bound": None, **change}],
    }
    path = tmp_path / "known.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InstanceError, match=message):
        read_best_known(path)
    data["entries"] = [{**entry, "objective": None, "bound": None}] * 2
    path.write_text(json.dumps(data))
    with pytest.raises(InstanceError, match="twice"):
        read_best_known(path)


def test_package_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(read_best_known(), dict)
    assert find_best_known("0" * 64, "peak") is None


def test_verify_measures_the_gap_to_the_best_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "gen:randwire?n=8,seed=3"
    record = run(tmp_path / "out", spec, "greedy", bound=1)
    improve(tmp_path)
    known = read_best_known(tmp_path / "known.json")
    (tmp_path / "best").mkdir()
    write_best_known(known, tmp_path / "best")
    assert [file.name for file in (tmp_path / "best").iterdir()] == ["peak.json"]
    assert read_best_known(tmp_path / "best") == known
    monkeypatch.setattr("lowtide.results.audits.best_known.FOLDER", tmp_path / "best")
    found = answer("show", spec, cwd=tmp_path)
    assert (found["best_known"], found["known_bound"]) == (record["objective"], 1)

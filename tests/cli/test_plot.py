"""``lowtide plot --kind``: pictures of plans and of experiments, and options that do not fit them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands import answer, refused, within
from tests.sweeps import sweep, write_experiment

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment in ``out``, the same as a file, and a plan."""
    here = tmp_path_factory.mktemp("plot")
    records = sweep(4)
    write_experiment(here / "out", records)
    (here / "records.jsonl").write_text("\n".join(map(json.dumps, records)))
    answer("table", "out", cwd=here)
    spec = "catalogue:two-branches"
    record = answer("solve", "peak", spec, "--method", "greedy", "--plan", "p.json", cwd=here)
    (here / "record.json").write_text(json.dumps(record))
    return here


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cactus", "performance-profile", "trace"])
def test_pictures_of_experiments(folder: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "x.svg"
    found = answer("plot", "out", "--kind", kind, "-o", str(out), cwd=folder)
    assert found == {"kind": kind, "runs": 48, "written": str(out)}
    assert out.read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_first_kind_is_the_cactus_and_files_of_records_do(folder: Path, tmp_path: Path) -> None:
    found = answer("plot", "records.jsonl", "-o", str(tmp_path / "x.svg"), "--virtual-best", cwd=folder)
    assert (found["kind"], found["runs"]) == ("cactus", 56)


@pytest.mark.slow
def test_scatter_of_two(folder: Path, tmp_path: Path) -> None:
    words = ("--kind", "scatter", "--x", "auto", "--y", "beam (width=16)", "--value", "gap-best-known")
    assert answer("plot", "out", *words, "-o", str(tmp_path / "x.svg"), cwd=folder)["kind"] == "scatter"


@pytest.mark.slow
def test_trace_of_one_instance_shows_its_incumbents(folder: Path, tmp_path: Path) -> None:
    words = ("--kind", "trace", "--where", "instance=net-1", "--title", "one of them")
    out = tmp_path / "x.svg"
    assert answer("plot", "out", *words, "-o", str(out), cwd=folder)["runs"] == 12
    assert "bounds dotted" in out.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("item", ["p.json", "record.json"])
@pytest.mark.parametrize(("kind", "key"), [("profile", "peak"), ("gantt", "runs"), ("residency", "peaks")])
def test_pictures_of_plans_and_records(folder: Path, tmp_path: Path, item: str, kind: str, key: str) -> None:
    out = tmp_path / "x.svg"
    found = answer("plot", item, "--kind", kind, "-o", str(out), cwd=folder)
    assert found["graph"] == "two-branches"
    assert found[key]
    assert within("plot", item, "--kind", kind, "-o", str(out), cwd=folder).stdout.startswith("graph")


@pytest.mark.slow
def test_streams_are_drawn_as_lanes(tmp_path: Path) -> None:
    words = ("streams", "catalogue:ios/squeezenet", "--method", "nimble")
    answer("solve", *words, "--contention", "proportional", "--plan", "s.json", cwd=tmp_path)
    found = answer("plot", "s.json", "-o", "s.svg", cwd=tmp_path)
    assert found["runs"] == 50
    assert all(f"<!-- {lane} -->" in (tmp_path / "s.svg").read_text() for lane in ("s0", "s1", "s2"))


def test_record_of_an_experiment_finds_its_plan(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "record.json").read_text())
    place = tmp_path / "out" / "records" / "ab" / "abcd.json"
    place.parent.mkdir(parents=True)
    (tmp_path / "out" / "plans" / "ab").mkdir(parents=True)
    shutil.copy(folder / "p.json", tmp_path / "out" / "plans" / "ab" / "abcd.json")
    place.write_text(json.dumps(record | {"plan": "plans/ab/abcd.json"}))
    found = answer("plot", "out/records/ab/abcd.json", "--kind", "gantt", "-o", "x.svg", cwd=tmp_path)
    assert found["runs"] == 6


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["out", "--kind", "gantt"], "found --kind gantt with experiments, expected one of cactus, "),
        (["p.json", "--kind", "cactus"], "found --kind cactus with a plan, record or graph, expected one of"),
        (["out", "--tier", "memory"], "found --tier with --kind cactus, which has no use for it"),
        (["out", "--value", "gap"], "found --value with --kind cactus, which has no use for it"),
        (["out", "--x", "auto"], "found --x with --kind cactus, expected it with --kind scatter"),
        (["p.json", "--where", "seed=1"], "found --where with --kind profile, which has no use for it"),
        (["p.json", "--kind", "gantt", "--bound", "12"], "found --bound with --kind gantt"),
        (["p.json", "p.json"], "found 2 files, expected one plan, record or graph"),
        (["out", "--by", "colour"], "by: found 'colour', expected one of name, instance"),
        (["out", "--by", "method"], "found several runs of one method in a case, expected one"),
        (["out", "--kind", "scatter"], "expected two of auto, beam (width=16)"),
        (["out", "--where", "method=none"], "where: found no run with method none"),
        (["nothing", "--kind", "cactus"], "nothing: found no such folder or file, expected an experiment"),
        (["out", "--kind", "pie"], "argument --kind: invalid choice: 'pie'"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(folder: Path, words: list[str], expected: str) -> None:
    assert expected in refused("plot", *words, "-o", "x.svg", cwd=folder, run=within)

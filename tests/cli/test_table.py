"""``lowtide table``: formats, selections, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import answer, refused, within
from tests.sweeps import record, sweep, write_experiment


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment in ``out``, all its runs done; nothing in it changes any more."""
    folder = tmp_path_factory.mktemp("experiment")
    records = sweep(4)
    write_experiment(folder / "out", records)
    (folder / "out" / "runs.json").write_text(json.dumps([{"name": r["name"]} for r in records]))
    answer("table", "out", cwd=folder)
    return folder


def printed(folder: Path, *arguments: str) -> str:
    done = within("table", "out", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_without_a_value_it_is_a_summary(experiment: Path) -> None:
    lines = printed(experiment).splitlines()
    assert lines[1] == "summary"
    names = [line.split("  ")[0] for line in lines[4:10]]
    assert names == ["auto", "beam (width=16)", "beam (width=64)", "cpsat", "greedy", "milp"]
    assert lines[-1].startswith("Time to solve: shifted geometric mean (shift 1)")


@pytest.mark.parametrize(
    ("form", "begins"),
    [("md", "**objective [MiB]**"), ("latex", "% objective [MiB]"), ("text", "\nobjective [MiB]")],
)
def test_formats_for_people(experiment: Path, form: str, begins: str) -> None:
    words = ("--rows", "instance", "--cols", "setting", "--value", "objective", "--unit", "MiB")
    assert printed(experiment, *words, "--format", form).startswith(begins)


@pytest.mark.slow
def test_formats_for_programs_agree(experiment: Path) -> None:
    words = ("--value", "par10", "--where", "method=auto", "--where", "method=milp")
    found = answer("table", "out", *words, cwd=experiment)
    assert json.loads(printed(experiment, *words, "--format", "json")) == found
    head, *rows = [line.split(",") for line in printed(experiment, *words, "--format", "csv").splitlines()]
    assert head[:2] == ["instance", "auto"]
    for row, expected in zip(rows, found["rows"], strict=True):
        assert row[0] == expected["instance"]
        assert float(row[1]) == expected["cells"]["auto"]["value"]


@pytest.mark.parametrize(
    ("name", "begins"), [("t.tex", "% gap"), ("t.md", "**gap"), ("t.csv", "instance,"), ("t.json", "{")]
)
def test_file_gets_the_format_of_its_ending(experiment: Path, tmp_path: Path, name: str, begins: str) -> None:
    path = tmp_path / name
    shown = printed(experiment, "--value", "gap", "-o", str(path))
    assert path.read_text().startswith(begins)
    assert str(path) in shown


def test_virtual_best_totals_and_selection(experiment: Path) -> None:
    words = ("--value", "seconds", "--total", "--virtual-best", "--where", "seed=1", "--shift", "10")
    found = answer("table", "out", *words, cwd=experiment)
    names = [row["instance"] for row in found["rows"]]
    assert names[:5] == ["net-0", "net-1", "net-2", "net-3", "all"]
    assert [*found["rows"][0]["cells"]][-1] == "virtual best"
    assert "shift 10" in found["note"]


def test_columns_are_named_with_points_or_dashes_too(experiment: Path) -> None:
    words = ("--rows", "limits.seconds", "--cols", "method,parameters-width", "--value", "runs")
    (row,) = answer("table", "out", *words, cwd=experiment)["rows"]
    assert row["limits_seconds"] == "60"
    assert row["cells"]["beam, 16"]["value"] == 8
    assert row["cells"]["auto, -"]["value"] == 8


@pytest.mark.slow
def test_missing_and_damaged_records_are_said(tmp_path: Path) -> None:
    records = sweep(2)
    write_experiment(tmp_path / "out", records[:-3])
    names = [{"name": r["name"]} for r in records]
    (tmp_path / "out" / "runs.json").write_text(json.dumps(names))
    bad = records[0]["name"]
    (tmp_path / "out" / "records" / bad[:2] / f"{bad}.json").write_text("{")
    done = within("table", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert f"{bad}.json: found a damaged file, expected a run record; it is left out" in done.stderr
    assert "out: 3 runs have no record yet" in done.stderr


def test_package_knows_nothing_of_these_but_a_file_may(tmp_path: Path) -> None:
    values = record("a", objective=100)
    write_experiment(tmp_path / "out", [values])
    mark = {"value": 80, "method": "m", "date": None, "version": None}
    entry = {"instance": "a", "instance_sha256": values["instance_sha256"], "problem": "peak"}
    entry |= {"unit": "bytes", "objective": mark, "bound": None}
    known = {"format": "lowtide/best-known", "version": 1, "entries": [entry]}
    (tmp_path / "known.json").write_text(json.dumps(known))
    words = ("table", "out", "--value", "gap-best-known")
    for more, expected in (((), 0.0), (("--best-known", "known.json"), 0.2)):
        (row,) = answer(*words, *more, cwd=tmp_path)["rows"]
        assert row["cells"]["greedy"]["value"] == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing"], "nothing: found no such folder or file, expected an experiment's folder"),
        (["."], ".: found no folder 'records' in it, expected an experiment's folder"),
        (["out", "--value", "speed"], "value: found 'speed', expected one of gap,"),
        (["out", "--cols", "method"], "cells: found different setting"),
        (["out", "--where", "method"], "argument --where: found 'method', expected KEY=VALUE"),
        (["out", "--where", "method=x"], "where: found no run with method x, expected one of auto, beam"),
        (["out", "--total"], "found --aggregate or --total without --value"),
        (["out", "--json", "--format", "md"], "found --json with --format md, expected one of them"),
        (["out", "--shift", "-1"], "argument --shift: found '-1', expected a number >= 0"),
        (["out", "--rows", "a,,b"], "argument --rows: found 'a,,b', expected names of columns"),
        (["out", "--value", "gap", "--unit", "MiB"], "unit: found 'MiB', expected none"),
        (["out", "-o", "missing/t.md"], "missing/t.md: found no folder"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(experiment: Path, words: list[str], expected: str) -> None:
    assert expected in refused("table", *words, cwd=experiment, run=within)


def test_folder_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "records").mkdir(parents=True)
    assert "out: found no records, expected at least one" in refused("table", "out", cwd=tmp_path, run=within)

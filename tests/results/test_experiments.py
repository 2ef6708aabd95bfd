"""The experiments: every committed table is made of its committed rows, and one command carries them out."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from lowtide.results.experiments import __main__ as command
from lowtide.results.experiments.__main__ import experiments, main, written
from lowtide.results.experiments.running import (
    HERE,
    ROOT,
    Case,
    by_instance,
    from_folder,
    made_by,
    read_rows,
    records_of,
)
from lowtide.results.tables.columns import EVERY
from lowtide.results.tables.spec import Column, Row, TableSpec, filled, latex, markdown, read_csv

TABLES = [name for name, path in experiments().items() if path.stem == "table"]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", TABLES)
def test_the_committed_text_is_made_of_the_committed_rows(name: str, tmp_path: Path) -> None:
    assert main([name, "--table", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "table.md").read_text() == (HERE / name / "table.md").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_have_copies_of_what_is_committed(path: Path) -> None:
    for name, copy in re.findall(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", path.read_text(), re.DOTALL):
        assert copy == written(name, read_rows(name), "excerpt"), name


def test_every_experiment_is_listed_with_what_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments())
    assert all(len(line.split()) > 3 for line in lines)


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peak_netwrks"]) == 2
    assert (
        "found 'peak_netwrks', expected one that is there; did you mean peak_networks"
        in capsys.readouterr().err
    )


def test_a_table_as_latex_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peak_networks", "--latex"]) == 0
    text = capsys.readouterr().out
    assert text.count(r" \\") == len(read_rows("peak_networks")) + 1
    assert r"\begin{tabular}{lrrrrrrlr}" in text
    assert re.search(r"\d\.\d\d\\% & ", text)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the cases that are measured, by an experiment of three."""
    measured: list[str] = []

    def cases(*, factor: int = 2) -> Iterator[Case]:
        for name in ("first", "second", "last"):
            yield Case(name, partial(measure, name, factor))

    def measure(name: str, factor: int) -> list[dict[str, object]]:
        measured.append(name)
        return [{"case": name, "n": factor}]

    module = ModuleType("counted")
    module.__dict__.update(cases=cases)
    monkeypatch.setattr(command, "load", lambda name: module)
    monkeypatch.setattr(command, "lowtide", lambda *words: None)
    return measured


def test_rows_that_are_kept_are_not_measured_again(
    counted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["counted", "--only", "s", "--out", str(tmp_path), "--factor", "3"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "first 3\nsecond 3\nlast 3\n"
    assert [line.split(",")[0] for line in captured.err.splitlines()] == ["1 of 3", "2 of 3", "3 of 3"]
    assert main(["counted", "--only", "st", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "first 3\nlast 3\n"
    assert counted == ["first", "second", "last"]


def test_rows_say_when_where_and_in_how_long_they_were_measured(
    counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[Row]] = []
    monkeypatch.setattr(command, "write_rows", lambda name, rows: written.append(rows))
    monkeypatch.setattr(command, "_write_text", lambda name, folder: None)
    assert main(["counted", "--out", str(tmp_path)]) == 0
    first, *_, last = written[0]
    assert list(last) == ["case", "n", *(name for name in EVERY if name != "seeds")]
    assert (last["version"], last["threads"]) == (lt.__version__, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", last["date"])
    assert re.fullmatch(r"\d+ cores, .*, load [\d.]+", last["machine"])
    kept = tmp_path / "rows.jsonl"
    kept.write_text(kept.read_text().replace(f'"date": "{first["date"]}"', '"date": "2026-01-31"'))
    assert main(["counted", "--out", str(tmp_path)]) == 0
    assert [row["date"] for row in written[1]] == ["2026-01-31"] * 3
    assert counted == ["first", "second", "last"]


def test_a_column_of_an_experiment_is_not_written_over(
    counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cases() -> Iterator[Case]:
        yield Case("only", lambda: [{"machine": "v100", "threads": 8}])

    monkeypatch.setattr(command.load("counted"), "cases", cases)
    written: list[Row] = []
    monkeypatch.setattr(command, "write_rows", lambda name, rows: written.extend(rows))
    monkeypatch.setattr(command, "_write_text", lambda name, folder: None)
    assert main(["counted"]) == 0
    assert [(row["machine"], row["threads"]) for row in written] == [("v100", 8)]


def test_rows_of_an_interrupted_case_are_not_kept(
    counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that is interrupted returns what it has: no measurement."""

    def interrupted() -> Iterator[Row]:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            yield {"n": 0}

    def cases() -> Iterator[Case]:
        yield Case("first", lambda: [{"n": 1}])
        yield Case("second", interrupted)

    monkeypatch.setattr(command.load("counted"), "cases", cases)
    before = signal.getsignal(signal.SIGINT)
    assert main(["counted", "--only", "s", "--out", str(tmp_path)]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    kept = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [name for name, _ in kept] == ["first"]


def test_rows_of_run_records_say_what_the_last_run_says() -> None:
    on = {"host": "h", "cpu": "x86_64", "cores": 2, "memory": 1, "load": 0.5}
    records = [
        {"started": f"2026-01-{day}T10:00:00Z", "version": v, "machine": on, "limits": {"threads": 2}}
        for day, v in ((30, "0.2"), (31, "0.3"), (29, "0.1"))
    ]
    assert made_by(records) == {
        "date": "2026-01-31",
        "version": "0.3",
        "machine": "2 cores, x86_64, load 0.5",
        "threads": 2,
    }


def test_only_needs_a_case_that_contains_it(counted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["counted", "--only", "nothing"]) == 2
    assert "found no case that contains 'nothing'" in capsys.readouterr().err
    assert counted == []


def test_the_readme_has_the_eight_networks_that_gain_most() -> None:
    rows = read_rows("peak_networks")
    lines = written("peak_networks", rows, "excerpt").splitlines()[4:]
    shown = {line.split(" | ")[0].removeprefix("| ") for line in lines}
    gain: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        gain[row["graph"] in shown].append(row["reference"] / row["peak"])
    assert len(lines) == len(gain[True]) == 8
    assert min(gain[True]) >= max(gain[False])


PLAN = """
[[runs]]
problem = "peak"
methods = ["greedy", "reference"]
instances = ["catalogue:diamond", "catalogue:harpoon"]
"""


@pytest.mark.slow
def test_a_part_of_an_experiment_is_carried_out_and_gone_on_with(tmp_path: Path) -> None:
    plan = tmp_path / "experiment.toml"
    plan.write_text(PLAN)
    some = by_instance(records_of(lambda folder: plan, tmp_path / "runs", only="diamond"))
    assert {spec: set(of) for spec, of in some.items()} == {"catalogue:diamond": {"greedy", "reference"}}
    every = by_instance(records_of(lambda folder: plan, tmp_path / "runs"))
    assert set(every) == {"catalogue:diamond", "catalogue:harpoon"}
    assert every["catalogue:diamond"] == some["catalogue:diamond"]
    with pytest.raises(UsageError, match="no instance that contains 'nothing'"):
        records_of(lambda folder: plan, tmp_path / "other", only="nothing")


def test_a_text_is_its_template_with_tables_in_the_place_of_their_names() -> None:
    spec = TableSpec(
        (
            *(Column("set"), Column("rows", len, "d"), Column("first", "n", ",")),
            Column("most", lambda group: max(row["n"] for row in group), ".1f"),
        ),
        groups=("set",),
    )
    rows: list[Row] = [{"set": "a_1", "n": 1000}, {"set": "b", "n": None}, {"set": "a_1", "n": 2000}]
    table = spec.of([row for row in rows if row["n"]], [["**all**", "3", "", "`x`"]])
    parts = filled("Of {rows} rows\nsome.\n\n{table}\n\n{rest}\n", {"rows": 3, "table": table, "rest": ""})
    assert markdown(parts) == (
        "Of 3 rows some.\n\n| set | rows | first | most |\n|---|---:|---:|---:|\n"
        "| a_1 | 2 | 1,000 | 2000.0 |\n| **all** | 3 |  | `x` |\n"
    )
    assert r"a\_1 & 2 & 1,000 & 2000.0 \\" in latex(parts)
    assert r"\textbf{all} & 3 &  & x \\" in latex(parts)
    assert TableSpec((Column("n", kind=","),)).of(rows[1:2]).lines == [["-"]]


def test_cells_are_read_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("n,x,is,text,none,instance_sha256\n3,1.5,True,'-a,,12e3\n")
    assert read_csv(path) == [
        {"n": 3, "x": 1.5, "is": True, "text": "-a", "none": None, "instance_sha256": "12e3"}
    ]


def test_no_specification_of_a_row_says_where_the_folder_is() -> None:
    folder = HERE / "placement_chains"
    spec = f"catalogue:chain?machine={folder}/machines/links-bert-base.toml&start=gpu"
    assert from_folder(spec, folder) == "catalogue:chain?machine=machines/links-bert-base.toml&start=gpu"

"""The experiments: every committed table is made of its committed rows, and one command carries them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from lowtide.results.experiments import __main__ as command
from lowtide.results.experiments.__main__ import experiments, main, written
from lowtide.results.experiments.running import HERE, ROOT, Case, read_rows

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


def test_only_needs_a_case_that_contains_it(counted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["counted", "--only", "nothing"]) == 2
    assert "found no case that contains 'nothing'" in capsys.readouterr().err
    assert counted == []


@pytest.mark.parametrize("name", ["peak_networks", "offsets_heights"])
def test_documents_have_the_rows_that_are_not_trivial(name: str) -> None:
    rows = read_rows(name)
    lines = written(name, rows, "excerpt").splitlines()[4:]
    assert 0 < len(lines) < len(rows)
    shown = {line.split(" | ")[0].removeprefix("| ") for line in lines}
    assert all(row["status"] == "optimal" for row in rows if next(iter(row.values())) not in shown)

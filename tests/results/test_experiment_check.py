"""``--check``: what an experiment that is carried out again says otherwise than its committed rows."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from lowtide.results.experiments import __main__ as command
from lowtide.results.experiments.__main__ import main
from lowtide.results.experiments.compared import differences
from lowtide.results.experiments.running import Case, read_rows
from lowtide.results.tables.spec import Row

NAME = "parallel_edges_large"


def test_times_and_dates_are_not_compared() -> None:
    rows = [{**row, "cpu_seconds": -1.0, "date": "2031-01-01"} for row in read_rows(NAME)]
    assert list(differences(NAME, rows)) == []


def test_a_cell_that_differs_has_a_line() -> None:
    rows = read_rows(NAME)
    committed = rows[2]["edges"]
    rows[2] = {**rows[2], "edges": committed + 1}
    (line,) = differences(NAME, rows)
    assert line.startswith(f"{NAME}, {rows[2]['instance']}, ")
    assert line.endswith(f", edges: found {committed + 1}, committed is {committed}")


def test_an_empty_cell_differs_from_a_number() -> None:
    rows = read_rows(NAME)
    committed = rows[0]["edges"]
    (line,) = differences(NAME, [{**rows[0], "edges": None}, *rows[1:]])
    assert line.endswith(f"edges: found nothing, committed is {committed}")


def test_rows_of_one_side_have_a_line_each() -> None:
    rows = read_rows(NAME)
    (missing,) = differences(NAME, rows[1:])
    assert missing.endswith(": committed, but not made again")
    assert list(differences(NAME, rows[1:], subset=True)) == []
    (new,) = differences(NAME, [*rows, {**rows[0], "percent": 99}])
    assert new.endswith(": found no such row among the committed ones")


@pytest.mark.parametrize(("shift", "status"), [(0, 0), (1, 1)])
def test_the_command_prints_them_and_writes_nothing(
    shift: int,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = read_rows(NAME)

    def cases() -> Iterator[Case]:
        def measure() -> Iterator[Row]:
            yield {**rows[0], "edges": rows[0]["edges"] + shift}
            yield from rows[1:]

        yield Case("all", measure)

    module = ModuleType(NAME)
    module.__dict__.update(cases=cases)
    monkeypatch.setattr(command, "load", lambda name: module)
    monkeypatch.setattr(command, "lowtide", lambda *words: None)
    monkeypatch.delattr(command, "write_rows")
    assert main([NAME, "--check"]) == status
    out = capsys.readouterr().out
    assert ("edges: found" if shift else f"{NAME}: {len(rows)} rows are as committed") in out
    assert len(out.splitlines()) == 1


AGAIN = (
    ("parallel_edges", "gen:sp?n=40&seed=1&accounting=coexist"),
    ("partition_optima", "bert24-inference"),
    ("pipeline_schedules", "p=2&m=4&v=2&w=0 makespan 4"),
    ("recompute_tiers", "135 bytes"),
    ("streams", "catalogue:ios/squeezenet none"),
)
"""Experiments and cases of them that take no longer than a few seconds, and hang on no time limit."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), AGAIN, ids=[name for name, _ in AGAIN])
def test_committed_rows_come_out_again(name: str, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--check", "--only", case]) == 0
    assert capsys.readouterr().out.endswith("rows are as committed\n")

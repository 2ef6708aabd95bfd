"""The page of reproductions: what is compared one by one agrees, all of it from committed rows."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from lowtide.results.experiments.running import read_rows
from tests.docs.pages import PAGES

MODULE: dict[str, Any] = runpy.run_path(str(PAGES / "reproductions.py"))


@pytest.mark.parametrize("entry", MODULE["VALUES"], ids=lambda entry: entry.source)
def test_all_figures_of_a_paper_agree_or_the_row_says_that_others_do_not(entry: Any) -> None:
    counts = re.match(r"(\d+) of (\d+) ", entry.here(read_rows(entry.experiment)))
    assert counts
    equal, every = map(int, counts.groups())
    assert 0 < equal <= every
    assert (equal == every) is not entry.differs.endswith("stands in the table")


@pytest.mark.parametrize(
    ("experiment", "column"),
    [
        ("partition_optima", "load"),
        ("pipeline_schedules", "time"),
        ("recompute_chains", "ours"),
        ("trees", "least"),
    ],
)
def test_a_row_that_differs_from_the_paper_lowers_the_count(experiment: str, column: str) -> None:
    rows = [
        row if row.get(column) is None else {**row, column: row[column] + 10**6}
        for row in read_rows(experiment)
    ]
    for entry in MODULE["VALUES"]:
        if entry.experiment == experiment:
            assert entry.here(rows) != entry.here(read_rows(experiment))


@pytest.mark.parametrize("name", ["values", "set-ups"])
def test_a_table_has_a_line_for_each_figure(name: str) -> None:
    lines = MODULE["table"](MODULE["TABLES"][name]).splitlines()
    assert len(lines) == len(MODULE["TABLES"][name]) + 2
    assert {line.count(" | ") for line in lines} == {4}

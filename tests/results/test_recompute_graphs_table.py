"""The table of recomputation in training graphs is that of its rows, and says what is claimed of them."""

from __future__ import annotations

import csv

from lowtide.results.reproductions.recompute_graphs import GRAPHS, METHODS, PERCENTS, markdown, summary
from lowtide.results.reproductions.table_files import HERE


def rows() -> list[dict[str, str]]:
    with (HERE / "recompute_graphs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_are_made_of_the_committed_rows() -> None:
    assert (HERE / "recompute_graphs.md").read_text() == markdown(rows())
    assert summary(rows()) in (HERE.parents[1] / "README.md").read_text()


def test_bounds_are_below_all_schedules_and_meet_those_that_are_optimal() -> None:
    found = rows()
    assert [(row["graph"], int(row["percent"])) for row in found] == [
        (g, p) for g in GRAPHS for p in PERCENTS
    ]
    for row in found:
        assert row["status"] in ("optimal", "feasible", "unknown")
        bound = int(row["bound"])
        assert int(row["least_time"]) <= bound
        for method in ("objective", *METHODS):
            assert not row[method] or bound <= int(row[method])
        assert (row["status"] == "optimal") == (row["objective"] == row["bound"])


def test_less_memory_never_takes_less_time_where_both_are_proved() -> None:
    for name in GRAPHS:
        times = [
            int(row["objective"]) for row in rows() if row["graph"] == name and row["status"] == "optimal"
        ]
        assert times == sorted(times, reverse=True)

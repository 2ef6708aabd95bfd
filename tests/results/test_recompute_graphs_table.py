"""The rows of the table of recomputation in training graphs say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.recompute_graphs.table import GRAPHS, METHODS, PERCENTS
from lowtide.results.experiments.running import read_rows
from lowtide.results.tables.spec import Row


def rows() -> list[Row]:
    return read_rows("recompute_graphs")


def test_bounds_are_below_all_schedules_and_meet_those_that_are_optimal() -> None:
    found = rows()
    assert [(row["graph"], row["percent"]) for row in found] == [(g, p) for g in GRAPHS for p in PERCENTS]
    for row in found:
        assert row["status"] in ("optimal", "feasible", "unknown")
        bound = row["bound"]
        assert row["least_time"] <= bound
        for method in ("objective", *METHODS):
            assert not row[method] or bound <= row[method]
        assert (row["status"] == "optimal") == (row["objective"] == row["bound"])


def test_less_memory_never_takes_less_time_where_both_are_proved() -> None:
    for name in GRAPHS:
        times = [row["objective"] for row in rows() if row["graph"] == name and row["status"] == "optimal"]
        assert times == sorted(times, reverse=True)

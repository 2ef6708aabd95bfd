"""The rows of the table of recomputation in whole training steps say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.recompute_transformers.table import GRAPHS, METHODS, PERCENTS
from lowtide.results.experiments.running import read_rows


def test_bounds_are_below_all_schedules_and_meet_those_that_are_optimal() -> None:
    rows = read_rows("recompute_transformers")
    assert [(row["graph"], row["percent"]) for row in rows] == [(g, p) for g in GRAPHS for p in PERCENTS]
    for row in rows:
        found = [row[key] for key in ("objective", *METHODS) if row[key] is not None]
        if row["status"] == "infeasible":
            assert not found
            continue
        assert row["least_time"] <= row["bound"] <= min(found, default=row["bound"])
        assert (row["status"] == "optimal") == (row["objective"] == row["bound"])
        assert row["objective"] is None or row["objective"] == min(found)


def test_a_memory_without_a_schedule_has_none_below_it() -> None:
    rows = read_rows("recompute_transformers")
    for name in GRAPHS:
        closed = [row["status"] == "infeasible" for row in rows if row["graph"] == name]
        assert closed == sorted(closed)

"""The rows of the table of least I/O say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.minio.table import (
    EXACT,
    HEURISTICS,
    LEVELS,
    SETS,
    mean_ratio,
    share_optimal,
)
from lowtide.results.experiments.running import read_rows as read_table


def test_bounds_are_below_all_traversals_and_in_their_order() -> None:
    table = read_table("minio")
    assert {(row["set"], row["level"]) for row in table} == {(s, level) for s in SETS for level in LEVELS}
    for row in table:
        assert 0 < row["subtrees"] <= row["packed"] <= row["bound"]
        assert row["bound"] <= min(row[method] for method in (*HEURISTICS, EXACT))
        assert row[EXACT] <= min(row[method] for method in HEURISTICS)


def test_packed_cuts_and_benders_leave_less_of_a_gap() -> None:
    table = read_table("minio")
    assert any(row["subtrees"] < row["packed"] < row["bound"] for row in table)
    assert share_optimal(EXACT, table) > share_optimal("full-rec-expand", table)
    ratios = [mean_ratio(method, table) for method in (EXACT, "full-rec-expand", "opt-min-mem", "postorder")]
    assert ratios == sorted(ratios)

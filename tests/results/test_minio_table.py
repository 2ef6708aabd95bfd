"""The table of least I/O is that of its rows, and its rows say what is claimed of them."""

from __future__ import annotations

from lowtide.results.reproductions.minio import (
    EXACT,
    HEURISTICS,
    LEVELS,
    SETS,
    markdown,
    mean_ratio,
    sentence,
    share_optimal,
)
from lowtide.results.reproductions.table_files import HERE, read_table


def test_the_table_is_made_of_the_committed_rows() -> None:
    table = read_table("minio")
    assert (HERE / "minio.md").read_text() == markdown(table)
    assert sentence(table) in (HERE.parents[1] / "README.md").read_text()


def test_bounds_are_below_all_traversals_and_in_their_order() -> None:
    table = read_table("minio")
    assert {(row["set"], row["level"]) for row in table} == {(s, level) for s, _ in SETS for level in LEVELS}
    for row in table:
        assert 0 < row["subtrees"] <= row["packed"] <= row["bound"]
        assert row["bound"] <= min(row[method] for method in (*HEURISTICS, EXACT))
        assert row[EXACT] <= min(row[method] for method in HEURISTICS)


def test_packed_cuts_and_benders_leave_less_of_a_gap() -> None:
    table = read_table("minio")
    assert any(row["subtrees"] < row["packed"] < row["bound"] for row in table)
    assert share_optimal(table, EXACT) > share_optimal(table, "full-rec-expand")
    ratios = [mean_ratio(table, method) for method in (EXACT, "full-rec-expand", "opt-min-mem", "postorder")]
    assert ratios == sorted(ratios)

"""The table of dynamic runtimes is that of its rows, and no run with edges is above the bound."""

from __future__ import annotations

from lowtide.results.reproductions.parallel_runtime import HERE, NAME, markdown
from lowtide.results.reproductions.table_files import read_table


def test_the_table_is_made_of_the_committed_rows() -> None:
    assert (HERE / f"{NAME}.md").read_text() == markdown(read_table(NAME))


def test_no_run_with_edges_exceeds_the_bound_and_some_without_do() -> None:
    found = read_table(NAME)
    assert found
    for row in found:
        assert row["order"] <= row["bound"] < row["most_before"] <= row["most"]
        assert row["above_before"] > 0
        assert row["above_after"] == 0
        assert row["most_after"] <= row["bound"]
        assert row["critical_path"] >= row["critical_path_before"]

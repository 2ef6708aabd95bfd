"""The rows of the table of dynamic runtimes: no run with edges is above the bound."""

from __future__ import annotations

from lowtide.results.experiments.running import read_rows


def test_no_run_with_edges_exceeds_the_bound_and_some_without_do() -> None:
    found = read_rows("parallel_runtime")
    assert found
    for row in found:
        assert row["order"] <= row["bound"] < row["most_before"] <= row["most"]
        assert row["above_before"] > 0
        assert row["above_after"] == 0
        assert row["most_after"] <= row["bound"]
        assert row["critical_path"] >= row["critical_path_before"]

"""The table of edge-adding heuristics is that of its rows, and says what is claimed of them."""

from __future__ import annotations

import csv

from lowtide.results.reproductions.parallel_edges import (
    FRACTIONS,
    HERE,
    LARGE,
    LARGE_FRACTIONS,
    RULES,
    large_markdown,
    markdown,
    read,
)


def rows() -> list[dict[str, str]]:
    with (HERE / "parallel_edges.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_made_of_the_committed_rows() -> None:
    assert (HERE / "parallel_edges.md").read_text() == markdown(rows())


def test_respect_order_never_failed_and_every_answer_was_verified() -> None:
    found = rows()
    graphs = {row["graph"] for row in found}
    assert len(found) == len(graphs) * len(FRACTIONS) * len(RULES)
    for row in found:
        assert row["status"] in ("optimal", "feasible", "unknown")
        assert row["reason"] == ""
        if row["rule"] == "respect-order":
            assert int(row["critical_path"]) >= int(row["critical_path_without"])


def test_the_table_of_larger_graphs_is_complete_and_made_of_its_rows() -> None:
    found = read(HERE / "parallel_edges_large.csv")
    assert (HERE / "parallel_edges_large.md").read_text() == large_markdown(found)
    assert len(found) == len(LARGE) * len(LARGE_FRACTIONS) * len(RULES)
    for row in found:
        assert int(row["ops"]) >= 1000
        assert row["rule"] != "respect-order" or row["edges"] or row["reason"] == "time"
        if row["edges"]:
            assert int(row["critical_path"]) >= int(row["critical_path_without"])

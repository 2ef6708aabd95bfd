"""The rows of the tables of edge-adding heuristics say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.parallel_edges.table import FRACTIONS, RULES
from lowtide.results.experiments.parallel_edges_large import table as large
from lowtide.results.experiments.running import read_rows


def test_respect_order_never_failed_and_every_answer_was_verified() -> None:
    found = read_rows("parallel_edges")
    graphs = {row["graph"] for row in found}
    assert len(found) == len(graphs) * len(FRACTIONS) * len(RULES)
    for row in found:
        assert row["status"] in ("optimal", "feasible", "unknown")
        assert row["reason"] is None
        if row["rule"] == "respect-order":
            assert row["critical_path"] >= row["critical_path_without"]


def test_the_table_of_larger_graphs_is_complete() -> None:
    found = read_rows("parallel_edges_large")
    assert len(found) == len(large.FAMILIES) * len(large.FRACTIONS) * len(RULES)
    for row in found:
        assert row["ops"] >= 1000
        assert row["rule"] != "respect-order" or row["edges"] or row["reason"] == "time"
        if row["edges"]:
            assert row["critical_path"] >= row["critical_path_without"]

"""The rows of the table of published planners say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.recompute_peers.table import PEERS
from lowtide.results.experiments.running import read_rows


def test_rows_are_those_in_which_something_fits_and_no_schedule_beats_the_bound() -> None:
    rows = read_rows("recompute_peers")
    beside = [row for row in read_rows("recompute_transformers") if row["status"] != "infeasible"]
    assert [(row["graph"], row["percent"]) for row in rows] == [(r["graph"], r["percent"]) for r in beside]
    for row, known in zip(rows, beside, strict=True):
        assert (row["auto"], row["bound"], row["memory"]) == (
            known["objective"],
            known["bound"],
            known["memory"],
        )
        for method in PEERS:
            assert row[method] is None or row[method] >= row["bound"]
            assert row[method] is not None or row[f"{method} why"]
        assert row["blocks"] >= row["different_blocks"] >= 1


def test_transformers_have_many_blocks_of_few_kinds_and_small_width() -> None:
    """But for Swin, whose layers have several sizes."""
    for row in read_rows("recompute_peers"):
        assert min(row["min_degree_width"], row["min_fill_width"]) <= 7
        if row["graph"].startswith(("GPT", "BERT", "Llama", "ViT")):
            assert row["blocks"] >= 3 * row["different_blocks"]
            assert row["rockmate"] is not None

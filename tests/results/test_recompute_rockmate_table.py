"""The rows of the table of Rockmate say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.running import read_rows


def test_rows_are_those_in_which_something_fits_and_no_schedule_beats_the_bound() -> None:
    rows = read_rows("recompute_rockmate")
    beside = [row for row in read_rows("recompute_transformers") if row["status"] != "infeasible"]
    assert [(row["graph"], row["percent"]) for row in rows] == [(r["graph"], r["percent"]) for r in beside]
    for row, known in zip(rows, beside, strict=True):
        assert (row["auto"], row["bound"], row["memory"]) == (
            known["objective"],
            known["bound"],
            known["memory"],
        )
        assert row["objective"] is None or row["objective"] >= row["bound"]
        assert (row["objective"] is None) == (row["status"] == "unknown")
        assert row["blocks"] >= row["different_blocks"] >= 1


def test_transformers_have_many_blocks_of_few_kinds() -> None:
    """But for Swin, whose layers have several sizes."""
    for row in read_rows("recompute_rockmate"):
        if row["graph"].startswith(("GPT", "BERT", "Llama", "ViT")):
            assert row["blocks"] >= 3 * row["different_blocks"]
            assert row["objective"] is not None

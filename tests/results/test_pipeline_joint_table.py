"""The table of transformers on 4 and 8 devices: ours is never behind, and never below the bound."""

from __future__ import annotations

from itertools import groupby

from lowtide.results.experiments.running import read_rows


def test_the_joint_plan_is_never_behind_a_published_one_nor_below_the_bound() -> None:
    rows = read_rows("pipeline_joint")
    groups = [
        [*some] for _, some in groupby(rows, key=lambda row: (row["model"], row["devices"], row["share"]))
    ]
    assert len(groups) == 16
    for group in groups:
        (ours,) = [row for row in group if row["system"] == "together"]
        times = [row["time"] for row in group if row["stages"] == row["devices"] and row["time"] is not None]
        assert len(times) > 2
        assert ours["joint"] <= ours["time"] == min(times)
        assert all(row["peak"] <= row["memory"] for row in group if row["peak"] is not None)
        assert all(row["time"] >= ours["joint"] for row in group if row["time"] in times)
        assert all(row["time"] >= ours["anywhere"] for row in group if row["time"] is not None)

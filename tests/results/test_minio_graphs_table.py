"""The rows of the table of graphs with a storage say what is claimed of them."""

from __future__ import annotations

from itertools import groupby

from lowtide.results.experiments.minio_graphs.table import LEVELS, SUBJECTS
from lowtide.results.experiments.running import read_rows as read_table


def test_bounds_rules_and_compulsory_bytes_are_in_their_order() -> None:
    table = read_table("minio_graphs")
    assert {row["graph"] for row in table} == set(SUBJECTS)
    assert {row["level"] for row in table} == set(LEVELS)
    for row in table:
        assert row["compulsory"] <= row["bound"] <= row["auto"] <= min(row["reference"], row["greedy"])
        assert (row["status"] == "optimal") == (row["bound"] == row["auto"])


def test_traffic_is_no_less_than_writes_and_more_memory_needs_no_more() -> None:
    table = read_table("minio_graphs")
    for (_, level), rows in groupby(table, lambda row: (row["graph"], row["level"])):
        writes, traffic = rows
        assert writes["bound"] <= traffic["auto"], level
    for _, rows in groupby(
        sorted(table, key=lambda x: (x["graph"], x["count"], x["memory"])), lambda x: (x["graph"], x["count"])
    ):
        small, large = rows
        assert large["bound"] <= small["auto"]

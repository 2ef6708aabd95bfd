"""The table of largest batches: one search again, and what its rows must say of each other."""

from __future__ import annotations

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.swap_batches.table import MACHINE, NETWORKS, problem_of
from lowtide.results.experiments.swap_systems.compared import AUTO


def test_rows_keep_to_the_proof() -> None:
    table = read_rows("swap_batches")
    largest = {row["network"]: row for row in table if row["method"] == AUTO and row["target"] is None}
    assert set(largest) == set(NETWORKS)
    for row in table:
        most = largest[row["network"]]
        assert row["batch"] <= most["batch"]
        assert row["period"] >= row["ideal"]
        assert row["target"] is None or row["period"] <= row["target"] * row["ideal"]
        assert row["refuted"] is None or row["refuted"] > row["batch"]
    for network, row in largest.items():
        assert row["above_status"] == "infeasible"
        assert problem_of(network, row["batch"]).impossible() is None
        above = load_problem(lt.Placement, row["above"])
        reason = above.impossible()
        assert reason is not None
        assert f"machine {MACHINE!r}" in reason
        fitting = problem_of(network, row["batch"]).graph  # nothing shrinks: no larger batch has a plan
        assert all(a.nbytes <= b.nbytes for a, b in zip(fitting.tensors, above.graph.tensors, strict=True))
        assert all(a.workspace <= b.workspace for a, b in zip(fitting.ops, above.graph.ops, strict=True))

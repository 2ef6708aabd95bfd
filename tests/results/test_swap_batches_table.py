"""The table of largest batches: one search again, and what its rows must say of each other."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.swap_batches.table import (
    MACHINE,
    NETWORKS,
    PUBLISHED,
    STAYS,
    STAYS_LEAST,
    problem_of,
    rows_without,
    text,
)
from lowtide.results.experiments.swap_systems.compared import AUTO


@pytest.mark.slow
def test_rows_keep_to_the_proof() -> None:
    table = read_rows("swap_batches")
    largest = {row["network"]: row for row in table if row["method"] == AUTO and row["target"] is None}
    assert set(largest) == set(NETWORKS)
    for row in table:
        most = largest[row["network"]]
        assert row["batch"] <= most["batch"]
        assert row["period"] is None or row["period"] >= row["ideal"]
        assert (row["period"] is None) is (row["method"] in (STAYS, STAYS_LEAST))
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


def test_without_swapping_a_batch_is_the_largest_whose_peak_fits() -> None:
    table = read_rows("swap_batches")
    known = {(row["network"], row["method"]): row for row in table if row["target"] is None}
    for network in NETWORKS:
        stays, least = known[network, STAYS], known[network, STAYS_LEAST]
        assert stays["batch"] <= least["batch"] <= known[network, AUTO]["batch"]
    row = known["zfnet512", STAYS]
    problem = problem_of("zfnet512", row["batch"])
    device = problem.machine.tiers[0].capacity
    assert device is not None
    for batch, fits in ((row["batch"], True), (row["batch"] + 1, False)):
        graph = problem_of("zfnet512", batch).graph
        assert (lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) <= device) is fits


@pytest.mark.slow
def test_the_search_without_swapping_finds_the_committed_rows() -> None:
    known = {(row["network"], row["method"]): row for row in read_rows("swap_batches")}
    for method in (STAYS, STAYS_LEAST):
        (row,) = rows_without("vgg19", method)
        assert row.items() <= known["vgg19", method].items()


def test_published_figures_stand_beside_quotients() -> None:
    cells = text(read_rows("swap_batches"))["published"]
    assert [line[0] for line in cells.lines] == [f"`{name}`" for name, _, _ in PUBLISHED]
    assert all(float(line[3].split(" to ")[0]) <= float(line[3].split(" to ")[1]) for line in cells.lines)

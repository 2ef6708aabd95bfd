"""The committed trade-off curves: rows that do not contradict each other, and their pictures."""

from __future__ import annotations

from itertools import groupby, pairwise

from lowtide.results.experiments.makespan_tradeoff.table import FOLDER, POINTS, SUBJECTS, curve_of
from lowtide.results.experiments.running import read_rows


def test_every_curve_lies_between_its_bounds_and_never_rises() -> None:
    groups = {
        name: list(rows) for name, rows in groupby(read_rows(FOLDER.name), key=lambda row: str(row["graph"]))
    }
    assert list(groups) == list(SUBJECTS)
    for rows in groups.values():
        curve = curve_of(rows)
        assert 2 <= len(curve.points) <= POINTS
        assert curve.bound is not None
        for point in curve.points:
            assert point.bound is not None
            assert curve.least_memory <= point.peak <= point.memory
            assert curve.bound <= point.bound <= point.makespan
        for low, high in pairwise(curve.points):
            assert low.memory < high.memory
            assert low.makespan >= high.makespan
            assert low.bound is not None
            assert high.bound is not None
            assert low.bound >= high.bound


def test_pictures_are_committed() -> None:
    for name in (*SUBJECTS, "gantt"):
        assert (FOLDER / f"{name}.svg").read_text().startswith("<?xml")

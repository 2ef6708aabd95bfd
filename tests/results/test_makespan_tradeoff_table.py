"""The committed trade-off curves: rows that do not contradict each other, and the table made of them."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

from lowtide.results.reproductions.makespan_tradeoff import (
    CASES,
    FOLDER,
    NAME,
    POINTS,
    curve_of,
    markdown,
)
from lowtide.results.reproductions.readme import README
from lowtide.results.reproductions.table_files import HERE, read_table


def test_the_table_is_made_of_the_committed_rows() -> None:
    text = markdown(read_table(NAME))
    assert (HERE / f"{NAME}.md").read_text() == text
    assert text in README.read_text()


def test_every_curve_lies_between_its_bounds_and_never_rises() -> None:
    groups = {name: list(rows) for name, rows in groupby(read_table(NAME), key=lambda row: str(row["graph"]))}
    assert list(groups) == list(CASES)
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


def test_pictures_are_committed_and_shown() -> None:
    shown = README.read_text()
    for name in (*CASES, "gantt"):
        path = Path("results/reproductions") / FOLDER / f"{name}.svg"
        assert f'src="{path.as_posix()}"' in shown
        assert (README.parent / path).read_text().startswith("<?xml")

"""The rows of the table of trees say what is claimed of them."""

from __future__ import annotations

from lowtide.results.experiments.__main__ import written
from lowtide.results.experiments.running import read_rows
from lowtide.results.experiments.trees.table import HARPOONS, LARGE_SP, LARGE_TREES, increases
from lowtide.results.tables.spec import Row


def rows() -> list[Row]:
    return read_rows("trees")


def test_the_table_says_whether_public_files_are_in_it() -> None:
    without = [row for row in rows() if not row["set"].startswith("files")]
    assert len(without) < len(rows())
    assert "no public files in this run" in written("trees", without)
    assert "public files" not in written("trees", rows()).replace(
        "public files of the repository", "", 1
    ).replace("assembly trees, public files", "", 1)


def test_closed_forms_hold_on_all_twelve_harpoons() -> None:
    found = [row for row in rows() if row["set"] == "harpoon"]
    assert len(found) == len(HARPOONS) == 12
    for row in found:
        assert (row["postorder"], row["least"]) == (row["closed postorder"], row["closed least"])


def test_no_post_order_is_below_the_least_peak() -> None:
    for row in rows():
        assert not row["postorder"] or int(row["postorder"]) >= int(row["least"])
    assert max(increases([row for row in rows() if row["set"] == "random"])) > 0


def test_large_graphs_took_the_seconds_that_are_claimed() -> None:
    found = {row["instance"]: row for row in rows() if row["set"].startswith("large")}
    assert set(found) == {*LARGE_TREES, *LARGE_SP}
    for spec in LARGE_TREES:
        assert max(float(found[spec][f"{method} s"]) for method in ("liu", "minmem", "postorder")) < 5
    for spec in LARGE_SP:
        assert float(found[spec]["series-parallel s"]) < 10

"""Committed tables of which README.md shows some rows."""

from collections.abc import Callable
from types import ModuleType

import pytest

from lowtide.results.reproductions import offsets_heights, peak_networks
from lowtide.results.reproductions.table_files import HERE, Row, read_table


@pytest.mark.parametrize(
    ("script", "rows", "shown"),
    [(peak_networks, "graphs", peak_networks.changed), (offsets_heights, "sets", offsets_heights.hard)],
    ids=["peak_networks", "offsets_heights"],
)
def test_tables_are_those_of_the_committed_rows(
    script: ModuleType, rows: str, shown: Callable[[list[Row]], tuple[list[Row], str]]
) -> None:
    name = script.__name__.rpartition(".")[2]
    table = read_table(name)
    assert script.markdown(table, f"All {len(table)} {rows}.") == (HERE / f"{name}.md").read_text()
    some, words = shown(table)
    assert 0 < len(some) < len(table)
    assert all(row["status"] == "optimal" for row in table if row not in some)
    assert script.markdown(some, words) in (HERE.parents[1] / "README.md").read_text()

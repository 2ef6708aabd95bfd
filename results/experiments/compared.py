"""What an experiment that was carried out again says otherwise than its committed rows."""

from __future__ import annotations

from collections.abc import Iterator

from ..tables.columns import EVERY, Columns, columns_from_dict, key_of
from ..tables.declared import TABLE, declared_of, read_columns, with_questions
from ..tables.spec import Row
from .running import HERE, read_rows


def differences(name: str, rows: list[Row], *, subset: bool = False) -> Iterator[str]:
    """Yield a line for each cell that differs, and for each row that only one side has.

    Not compared: times and what else is measured, derived cells (they follow from the others), and
    what says when and where a row was made.

    Parameters
    ----------
    name
        The experiment.
    rows
        What it gave now.
    subset
        Whether these are the rows of some of its cases: the others are not missed.
    """
    path = HERE / name / TABLE
    declared = declared_of(path)
    assert declared is not None, f"tables.toml does not tell of {name}"
    columns = columns_from_dict(read_columns(HERE).get(name, {}), f"tables.toml, columns.{name}")
    now, before = (
        {key_of(declared, columns, row): row for row in side}
        for side in (with_questions(declared, rows, path.parent), read_rows(name))
    )
    for key, row in now.items():
        label = f"{name}, {', '.join(filter(None, key))}"
        if key not in before:
            yield f"{label}: found no such row among the committed ones"
            continue
        for column in compared_columns(columns, row):
            here, committed = (
                "nothing" if cell is None else str(cell) for cell in (row[column], before[key].get(column))
            )
            if here != committed:
                yield f"{label}, {column}: found {here}, committed is {committed}"
    if not subset:
        for key in sorted(before.keys() - now.keys()):
            yield f"{name}, {', '.join(filter(None, key))}: committed, but not made again"


def compared_columns(columns: Columns, row: Row) -> list[str]:
    """Return the columns of a row that must be the same whenever and wherever it is made."""
    left_out = {*columns.measured, *columns.derived, *EVERY}
    return [column for column in row if column not in left_out]

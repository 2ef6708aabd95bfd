r"""Tables of an experiment as texts: columns that say how a row's cell is found and written, once.

A text is a list of parts: paragraphs, and tables that a `TableSpec` makes of rows; `filled` makes it of a
template. `markdown` and `latex` write all of it; the file of the rows is `write_csv`'s. What rows claim says
``tables.toml`` (`declared`): the columns of their questions are written by it, and ``lowtide audit`` reads
them by it.

Examples
--------
>>> spec = TableSpec((Column("graph"), Column("gap", kind=".1%"), Column("twice", lambda r: 2 * r["n"], ",")))
>>> print(markdown(["All of them.", spec.of([{"graph": "a", "gap": None, "n": 600}])]), end="")
All of them.
<BLANKLINE>
| graph | gap | twice |
|---|---:|---:|
| a | - | 1,200 |
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...models.texts import as_cell, from_cell
from .declared import Declared, columns_with_questions, with_questions
from .table_text import latex_text

Row = dict[str, Any]

RIGHT = ">"
"""The kind of texts that stand on the right, as numbers do."""


class Column(NamedTuple):
    """A column of a text.

    Attributes
    ----------
    heading
        What stands above it.
    value
        The row's cell: its name (default: the heading), or a function of the row. Where rows are grouped, the
        cell of the group's first row, or a function of the list of its rows.
    kind
        How numbers are written: a format specification, such as ``",.2f"``. Empty: as they come, on the left;
        all other kinds stand on the right.
    missing
        What stands for None.
    """

    heading: str
    value: str | Callable[[Any], Any] | None = None
    kind: str = ""
    missing: str = "-"

    def cell(self, item: Row | list[Row]) -> str:
        """Return the cell of a row, or of a group of rows."""
        if callable(self.value):
            value = self.value(item)
        else:
            value = (item[0] if isinstance(item, list) else item).get(self.value or self.heading)
        if value is None:
            return self.missing
        return value if isinstance(value, str) else format(value, self.kind)


class Cells(NamedTuple):
    """A table that is written: headings, which of them stand on the left, lines of cells."""

    headings: tuple[str, ...]
    left: tuple[bool, ...]
    lines: list[Sequence[str]]


@dataclass(frozen=True)
class TableSpec:
    """What a table's text consists of.

    Attributes
    ----------
    columns
        From left to right.
    groups
        Names of cells: rows that agree in them are one line, in the order of the first of each.
    """

    columns: tuple[Column, ...]
    groups: tuple[str, ...] = ()

    def of(self, rows: Iterable[Row], last: Iterable[Sequence[str]] = ()) -> Cells:
        """Return the lines of rows, and after them further lines of cells."""
        items: Iterable[Row | list[Row]] = rows
        if self.groups:
            groups: dict[tuple[Any, ...], list[Row]] = {}
            for row in rows:
                groups.setdefault(tuple(row.get(key) for key in self.groups), []).append(row)
            items = groups.values()
        return Cells(
            tuple(column.heading for column in self.columns),
            tuple(not column.kind for column in self.columns),
            [*([column.cell(item) for column in self.columns] for item in items), *last],
        )


Part = str | Cells
"""A paragraph, or a table."""

Fields = dict[str, Any]
"""What stands for the names in the braces of a template."""


def filled(template: str, fields: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a text, those that are empty left out.

    Parameters
    ----------
    template
        Paragraphs between empty lines, wrapped somehow, with names of fields in braces as `str.format` has;
        one that is ``{name}`` alone may be a table.
    fields
        Numbers, words and `Cells` by name.
    """
    parts: list[Part] = []
    for paragraph in template.strip().split("\n\n"):
        alone = fields.get(paragraph[1:-1]) if paragraph.startswith("{") else None
        words = " ".join(paragraph.splitlines())
        parts.append(alone if isinstance(alone, Cells) else words.format_map(fields))
    return [part for part in parts if part]


def markdown(parts: Iterable[Part]) -> str:
    """Return a text as Markdown, which ends with a line feed."""
    return "\n\n".join(part if isinstance(part, str) else _markdown(part) for part in parts) + "\n"


def _markdown(cells: Cells) -> str:
    rule = "|" + "|".join("---" if left else "---:" for left in cells.left) + "|"
    lines = [f"| {' | '.join(line)} |" for line in (cells.headings, *cells.lines)]
    return "\n".join([lines[0], rule, *lines[1:]])


def latex(parts: Iterable[Part]) -> str:
    r"""Return the tables of a text as LaTeX ``tabular`` (booktabs); paragraphs are comments."""
    lines = [r"% \usepackage{booktabs}"]
    for part in parts:
        if isinstance(part, str):
            lines += [f"% {line}" for line in part.splitlines()]
            continue
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (part.headings, *part.lines))
        kinds = "".join("l" if left else "r" for left in part.left)
        lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *body]
        lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _latex(cell: str) -> str:
    """Return a cell without Markdown's marks, bold where it is."""
    text = latex_text(cell.replace("**", "").replace("`", ""))
    return rf"\textbf{{{text}}}" if cell.startswith("**") else text


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], declared: Declared) -> None:
    """Write rows as a CSV file, with the columns of the questions that they are about.

    Raises
    ------
    InstanceError
        If the instance of a question cannot be loaded: its hash is written.
    """
    columns = columns_with_questions(declared, list(dict.fromkeys(key for row in rows for key in row)))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in with_questions(declared, rows, path.parent):
            writer.writerow({k: as_cell(v) if isinstance(v, str) else v for k, v in row.items()})


def read_csv(path: Path) -> list[Row]:
    """Return the rows of a file: numbers, truth values, texts, and None where there is nothing."""
    with path.open(newline="") as file:
        return [{key: _value(key, text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(column: str, text: str) -> int | float | bool | str | None:
    for read in () if column.endswith("sha256") else (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, from_cell(text)) if text else None

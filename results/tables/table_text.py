"""Tables as text: Markdown, LaTeX (booktabs), CSV, JSON values, and plain cells for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ...models.errors import UsageError
from ...models.texts import as_cell
from .cells import Cell
from .tables import Table
from .values import Kind

UNITS = {
    **{"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    **{"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}
"""Units in which an amount of bytes or nanoseconds can be shown."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}
_DASH = "\N{EN DASH}"


def markdown(table: Table, unit: str | None = None) -> str:
    """Return the table as Markdown: the best of each row bold, the note under it.

    Parameters
    ----------
    table
        What `pivot` or `summary` returned.
    unit
        One of `UNITS`, for amounts.

    Raises
    ------
    UsageError
        If the unit does not fit the table.
    """

    def cell(text: str, best: bool) -> str:
        text = re.sub(r"[|*_\\`]|<(?=[A-Za-z/!?])", lambda found: "\\" + found[0], text)
        return f"**{text}**" if best else text

    title, columns, rows = _written(table, unit, cell)
    lines = _aligned([columns, *rows], len(table.keys))
    widths = [*map(len, lines[0])]
    rule = [":" + "-" * (w - 1) if i < len(table.keys) else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))
    return "\n\n".join(part for part in (f"**{title}**", body, table.note) if part) + "\n"


def latex(table: Table, unit: str | None = None) -> str:
    r"""Return the table as a LaTeX ``tabular`` with the rules of the package booktabs.

    Title and note are comments: a paper has its own words for the caption.

    Parameters
    ----------
    table
        What `pivot` or `summary` returned.
    unit
        One of `UNITS`, for amounts.

    Raises
    ------
    UsageError
        If the unit does not fit the table.
    """

    def cell(text: str, best: bool) -> str:
        return rf"\textbf{{{latex_text(text)}}}" if best else latex_text(text)

    title, columns, rows = _written(table, unit, cell)
    keys = len(table.keys)
    lines = [" & ".join(line) + r" \\" for line in _aligned([columns, *rows], keys)]
    if table.totals:
        lines.insert(len(lines) - table.totals, r"\midrule")
    head = [f"% {title}", *([f"% {table.note}"] if table.note else []), r"% \usepackage{booktabs}"]
    head += [rf"\begin{{tabular}}{{{'l' * keys}{'r' * len(table.columns)}}}", r"\toprule"]
    return "\n".join([*head, lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def latex_text(text: str) -> str:
    """Return a text as LaTeX shows it, letter by letter."""
    return "".join(_LATEX.get(c, c) for c in text).replace(_DASH, "--")


def csv(table: Table) -> str:
    """Return the exact numbers as CSV; runs counted get columns of their own where they matter."""
    found = table.frame()
    found = found.rename(columns=_text_cell).map(_text_cell)
    return found.to_csv(index=False, lineterminator="\n")


def _text_cell(value: Any) -> Any:
    return as_cell(value) if isinstance(value, str) else value


def json_values(table: Table) -> dict[str, Any]:
    """Return the table as JSON values: each row with its names and cells."""
    return {
        "title": table.title,
        "note": table.note,
        "rows": [
            {
                **dict(zip(table.keys, labels, strict=True)),
                "cells": {
                    name: {"value": c.value, "counted": c.counted, "runs": c.runs, "words": c.words or None}
                    for name, c in zip(table.columns, cells, strict=True)
                },
            }
            for labels, cells in zip(table.labels, table.cells, strict=True)
        ],
    }


def plain(table: Table, unit: str | None = None) -> tuple[str, list[str], list[list[str]]]:
    """Return title, headings and rows of texts.

    Parameters
    ----------
    table
        What `pivot` or `summary` returned.
    unit
        One of `UNITS`, for amounts.

    Raises
    ------
    UsageError
        If the unit does not fit the table.
    """
    return _written(table, unit, lambda text, best: text)


def text(table: Table, unit: str | None = None) -> str:
    """Return the table as aligned text.

    Raises
    ------
    UsageError
        If the unit does not fit the table.
    """
    title, columns, rows = plain(table, unit)
    lines = ["  ".join(line).rstrip() for line in _aligned([columns, *rows], len(table.keys))]
    return "\n".join([title, "-" * len(title), *lines, *(["", table.note] if table.note else []), ""])


def _written(
    table: Table, unit: str | None, cell: Callable[[str, bool], str]
) -> tuple[str, list[str], list[list[str]]]:
    title, scale = _in_unit(table, unit)
    columns = [cell(text, False) for text in (*table.keys, *table.columns)]
    counts = [table.counts(kind) for kind in table.kinds]
    rows = []
    for labels, cells in zip(table.labels, table.cells, strict=True):
        row = [cell(text, False) for text in labels]
        for one, kind, counted in zip(cells, table.kinds, counts, strict=True):
            row.append(cell(_text(one, kind, scale), one.best) + (_counted(one) if counted else ""))
        rows.append(row)
    return title, columns, rows


def _aligned(lines: Sequence[Sequence[str]], left: int) -> list[list[str]]:
    """Return the cells padded to one width a column; the first `left` columns are texts."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]


def _text(cell: Cell, kind: Kind, scale: int | None) -> str:
    if cell.value is None or kind == "words":
        return _DASH if cell.words == "-" else cell.words
    if kind == "share":
        return _decimals(100 * cell.value)
    if kind == "seconds" or (kind == "amount" and scale is not None):
        return _decimals(cell.value / (scale if kind == "amount" and scale is not None else 1))
    if kind == "part":
        return f"{cell.value}/{cell.runs}"
    if kind == "plain" and isinstance(cell.value, float):
        return f"{cell.value:.6g}"
    return f"{cell.value:,.0f}"


def _decimals(value: float) -> str:
    """Return two decimals; what is not 0 never reads as 0."""
    return "< 0.01" if 0 < value < 0.005 else f"{value:,.2f}"


def _counted(cell: Cell) -> str:
    return "" if cell.value is None or cell.counted == cell.runs == 1 else f" ({cell.counted}/{cell.runs})"


def _in_unit(table: Table, unit: str | None) -> tuple[str, int | None]:
    """Return the title, and what amounts are divided by if they are not shown as they are."""
    if unit is None:
        return table.title, None
    old = re.search(r" \[(bytes|ns)\]$", table.title)
    known = [u for u in UNITS if old is not None and (u in ("ns", "us", "ms", "s")) == (old[1] == "ns")]
    if old is None or unit not in known:
        expected = (
            f"expected one of {', '.join(known)}" if known else "expected none: the table has no amounts"
        )
        raise UsageError(f"unit: found {unit!r}, {expected}")
    return table.title[: old.start()] + f" [{unit}]", UNITS[unit]

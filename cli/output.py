"""What goes to standard output: tables for people, one JSON object for programs.

On a terminal tables are drawn by rich, if it is installed; elsewhere they are plain aligned text. When
the reader of a pipe has gone, the rest is dropped quietly and the work goes on.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..models.texts import escaped_json, one_line, printable

_STYLES = {
    "optimal": "bold green",
    "valid": "bold green",
    "feasible": "yellow",
    "unknown": "yellow",
    "infeasible": "bold red",
    "failed": "bold red",
    "invalid": "bold red",
}
"""How the first word of a verdict looks on a terminal."""


def emit(text: str) -> None:
    """Write a line, or several, to standard output; control characters in it are written out."""
    try:
        print(printable(text, keep="\n"), flush=True)
    except OSError as error:
        _stop(error)


def _stop(error: OSError) -> None:
    drop_output()  # else what is left fails once more when the process ends
    if not isinstance(error, BrokenPipeError):
        raise error


def emit_json(value: dict[str, Any]) -> None:
    """Write one JSON object on one line."""
    text = escaped_json(json.dumps(value, ensure_ascii=False))
    try:
        print(text, flush=True)
    except OSError as error:
        _stop(error)


def open_streams() -> None:
    """Let standard streams that whoever started the program closed lead nowhere.

    Otherwise the next file that is opened takes their descriptor, and what libraries print goes into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def reserve_output() -> None:
    """Keep standard output for what this program says: what libraries write to it goes to standard error.

    HiGHS 1.12 prints ``HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();`` whatever
    its options are; beside the object of ``--json`` no program could read that. The descriptor is moved for
    good, because the C library may hold such a line back until the process ends.
    """
    theirs = sys.stdout.fileno()
    ours = os.fdopen(os.dup(theirs), "w", encoding=sys.stdout.encoding, errors="replace")
    os.dup2(sys.stderr.fileno(), theirs)
    sys.stdout = ours


def drop_output() -> None:
    """Send what else goes to standard output nowhere: its reader has gone, or takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Write a remark for people to standard error."""
    print(f"lowtide: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def noting_warnings() -> Iterator[None]:
    """Write warnings of the package as notes, without the place in its code."""
    package = __name__.partition(".")[0]
    with warnings.catch_warnings():
        show = warnings.showwarning

        def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__.partition(".")[0] == package:
                note(str(message))
            else:
                show(message, category, *place, **more)

        setattr(warnings, "showwarning", shown)  # noqa: B010 (mypy: the parameters of the place pass through)
        yield


def complain(text: str) -> None:
    """Write an error to standard error: in one line, cut in the middle if it is long."""
    print(f"lowtide: error: {one_line(text)}", file=sys.stderr)


def emit_pairs(rows: Sequence[tuple[str, str]]) -> None:
    """Write names and values, one pair a line."""
    rows = [(printable(name), printable(value)) for name, value in rows]
    if not _draws():
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            emit(f"{name:<{width}}  {value}".rstrip())
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(_cell(name), _cell(value))
    _print(table)


def emit_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    right: Collection[str] = (),
) -> None:
    """Write a table; the columns named in `right` hold numbers, aligned to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    title = printable(title)
    if not _draws():
        emit("\n".join(_plain(columns, rows, title, right)))
        return
    from rich import box
    from rich.table import Table

    emit("")
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    _print(table)


def emit_found(as_json: bool, values: dict[str, Any], rows: Sequence[tuple[str, str]]) -> None:
    """Write what was found, for programs or for people."""
    emit_json(values) if as_json else emit_pairs(rows)


def invalid(faults: Sequence[Any], more: str = "") -> str:
    """Say how many rules a plan or an allocation breaks."""
    return f"invalid: {len(faults):,} violation{'s' * (len(faults) > 1)}{more}"


def emit_violations(faults: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of the rules that are broken, if any is."""
    if faults:
        rows = [[str(v.get("time", "-")), v["kind"], v["message"]] for v in faults]
        emit_table(["time", "kind", "message"], rows, title="violations", right=("time",))


def _plain(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, right: Collection[str]
) -> list[str]:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        parts = [
            f"{cell:>{width}}" if name in right else f"{cell:<{width}}"
            for name, cell, width in zip(columns, cells, widths, strict=True)
        ]
        return "  ".join(parts).rstrip()

    head = [title, "-" * len(title)] if title else []
    return ["", *head, line(columns), *map(line, rows)]


def _draws() -> bool:
    """Whether tables are drawn: a terminal, and rich is installed."""
    return sys.stdout.isatty() and importlib.util.find_spec("rich") is not None


def _cell(text: str) -> Any:
    """Return a cell whose text is taken as it is (no markup)."""
    from rich.text import Text

    return Text(text, style=_STYLES.get(text.partition(" ")[0].rstrip(":,"), ""))


def _print(table: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(table)

"""MiniMalloc's CSV of buffers, in all its columns, read strictly; also gzipped.

One line a buffer, after a header that names the columns, in any order:

============================  ====================================================================
column                        cell
============================  ====================================================================
``id``, ``buffer``,           text, unique; quoted if it has commas in it
``buffer_id``
``lower``, ``begin``,         first time of the lifetime
``start``
``upper``                     the lifetime is the half-open ``[lower, upper)``
``end``                       instead of `upper`: the **last** time of the lifetime, upper - 1
``size``                      bytes
``alignment``                 the offset is a multiple of it; empty: 1
``hint``                      a suggested offset; empty or -1: none
``gaps``                      ``lo-hi`` or ``lo-hi@w0:w1``, separated by blanks: half-open times when the
                              buffer occupies nothing, or only the bytes ``[w0, w1)`` of its own; in a
                              file with `end` they too name their last time
``offset``                    in an input a fixed offset, in an output the solution; empty or -1: none
``pool``                      the memory it lies in, by name
``inplace``                   ids of buffers at whose address it may lie though they live together with
                              it, separated by blanks; quoted with ``"`` if they have blanks in them
============================  ====================================================================

The first four must be there; the last two are not MiniMalloc's, and written only where they say something.
A file states no capacities.

Reference: Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", ASPLOS 2023.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence

from ...models.buffers import Buffer, Buffers, Gap
from ...models.errors import InstanceError
from ...models.files import write_packed
from ...models.texts import as_cell, from_cell
from .strict_json import nearest, read_bytes, show

_ALIASES = {
    "begin": "lower",
    "start": "lower",
    "buffer": "id",
    "buffer_id": "id",
    "end": "upper",
}
_REQUIRED = ("id", "lower", "upper", "size")
_COLUMNS = (*_REQUIRED, "alignment", "hint", "gaps", "offset", "pool", "traffic", "inplace")
_GAP = re.compile(r"(\d{1,19})-(\d{1,19})(?:@(\d{1,19}):(\d{1,19}))?", re.ASCII)


_TEXTS = ("id", "pool", "inplace")
"""Columns of texts, which spreadsheets might take for formulas."""


def read_csv(path: str | os.PathLike[str]) -> Buffers:
    """Return the buffers of a CSV file, gunzipped if its name ends in ``.gz``.

    Parameters
    ----------
    path
        The file. Its name, without folder and ending, becomes the name of the set.

    Raises
    ------
    InstanceError
        If the file cannot be read or is not exactly of the format; one line that names file, line,
        column, found and expected.
    """
    where = os.fspath(path)
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InstanceError(
            f"{where}: found byte {byte:#04x} at offset {error.start}, expected UTF-8 text"
        ) from None
    name = re.sub(r"\.csv(\.gz)?$", "", os.path.basename(where), flags=re.IGNORECASE)
    return buffers_from_csv(text, where, name=name)


def buffers_from_csv(text: str, where: str = "csv", *, name: str = "") -> Buffers:
    r"""Return the buffers of a CSV text.

    Raises
    ------
    InstanceError
        If it is not exactly of the format, or states no valid buffers.

    Examples
    --------
    >>> from lowtide.instances import buffers_from_csv
    >>> buffers_from_csv("buffer,start,end,size\nx,0,2,4\n").buffers[0].upper
    3
    """
    rows = _rows(text, where)
    if not rows:
        raise InstanceError(f"{where}: found no header, expected the columns {', '.join(_REQUIRED)}")
    names = _header(rows[0][1], f"{where}:{rows[0][0]}")
    buffers = []
    pairs: list[tuple[str, str]] = []
    lines: dict[str, int] = {}
    for line, row in rows[1:]:
        place = f"{where}:{line}"
        if len(row) != len(names):
            raise InstanceError(f"{place}: found {len(row)} cells, expected {len(names)}")
        cells = dict(zip(names, row, strict=True))
        cells |= {column: from_cell(cells[column]) for column in _TEXTS if column in cells}
        first = lines.setdefault(cells["id"], line)
        if first != line:
            fault = f"found {cells['id']!r} again, first on line {first}, expected it once"
            raise InstanceError(f"{place}, {names['id']}: {fault}")
        buffers.append(_buffer(cells, place, names))
        pairs += [(other, cells["id"]) for other in sorted(_words(cells.get("inplace", ""), place))]
    for k, (other, own) in enumerate(pairs):
        if other == own or other not in lines:
            fault = f"found {other!r}, expected the id of another buffer"
        elif k and pairs[k - 1] == (other, own):
            fault = f"found {other!r} again, expected it once"
        else:
            continue
        raise InstanceError(f"{where}:{lines[own]}, inplace: {fault}")
    try:
        loaded = Buffers(buffers=tuple(buffers), inplace=tuple(pairs), name=name)
    except InstanceError as error:
        raise InstanceError(f"{where}: {error}") from None
    return loaded


def csv_text(buffers: Buffers, offsets: Mapping[str, int] | None = None) -> str:
    r"""Return the CSV of buffers; optional columns only if one of them has use for it.

    Capacities are left out: the format has no place for them.

    Parameters
    ----------
    offsets
        A solution, for the column `offset`; without it, the fixed offsets.

    Raises
    ------
    InstanceError
        If the solution lacks a buffer.

    Examples
    --------
    >>> from lowtide.instances import csv_text
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x = Buffer(id="x", lower=0, upper=3, size=4, alignment=2)
    >>> csv_text(Buffers(buffers=(x,)), {"x": 6})
    'id,lower,upper,size,alignment,offset\nx,0,3,4,2,6\n'
    """
    if offsets is not None and (missing := [b.id for b in buffers.buffers if b.id not in offsets]):
        raise InstanceError(f"offsets: found none of buffer {missing[0]!r}, expected one of each buffer")
    rows = [_cells(b, None if offsets is None else offsets[b.id]) for b in buffers.buffers]
    reused: dict[str, list[str]] = {}
    for first, second in sorted(buffers.inplace):
        reused.setdefault(second, []).append(first)
    for b, row in zip(buffers.buffers, rows, strict=True):
        if b.id in reused:
            row["inplace"] = as_cell(_joined(reused[b.id], " "))
    used = [column for column in _COLUMNS if column in _REQUIRED or any(column in row for row in rows)]
    empty = {"alignment": "1", "hint": "-1", "offset": "-1"}
    table = [used, *([row.get(column, empty.get(column, "")) for column in used] for row in rows)]
    return "".join(f"{_joined(row, ',')}\n" for row in table)


def write_csv(
    buffers: Buffers, path: str | os.PathLike[str], offsets: Mapping[str, int] | None = None
) -> None:
    """Write buffers, or a solution, as CSV; gzipped if the name ends in ``.gz``.

    The same content always gives the same bytes; the file is written whole or not at all.

    Raises
    ------
    InstanceError
        If the solution lacks a buffer.
    UsageError
        If the path cannot be written.
    """
    content = csv_text(buffers, offsets).encode()
    write_packed(path, content)


def _rows(text: str, where: str) -> list[tuple[int, list[str]]]:
    """Return the rows with their line numbers; blank lines only at the end."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    blank: int | None = None
    line = 0
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return rows
        except csv.Error as error:
            raise InstanceError(f"{where}:{line}: found {error}, expected CSV") from None
        if not "".join(row).strip() and len(row) < 2:
            blank = blank or line
            continue
        if blank is not None:
            raise InstanceError(f"{where}:{blank}: found a blank line, expected none before the last row")
        rows.append((line, row))


def _header(row: Sequence[str], where: str) -> dict[str, str]:
    """Return, in the file's order, for each column the name that the file gives it."""
    given = [cell.strip() for cell in row]
    columns = [_ALIASES.get(cell, cell) for cell in given]
    for i, column in enumerate(columns):
        if column not in _COLUMNS:
            hint = nearest(given[i], (*_COLUMNS, *_ALIASES))
            raise InstanceError(f"{where}: found unknown column {given[i]!r}, {hint}")
        if column in columns[:i]:
            other = given[columns.index(column)]
            again = "again" if other == given[i] else f"beside {other!r}, which means the same"
            raise InstanceError(f"{where}: found column {given[i]!r} {again}, expected it once")
    for column in _REQUIRED:
        if column not in columns:
            known = [column, *(alias for alias, name in _ALIASES.items() if name == column)]
            raise InstanceError(f"{where}: found no column {column!r}, expected {' or '.join(known)}")
    return dict(zip(columns, given, strict=True))


def _buffer(cells: Mapping[str, str], where: str, names: Mapping[str, str]) -> Buffer:
    inclusive = names["upper"] == "end"

    def integer(column: str, least: int) -> int | None:
        return _integer(cells.get(column, ""), f"{where}, {names.get(column)}", least)

    def required(column: str, least: int) -> int:
        value = integer(column, least)
        if value is None:
            raise InstanceError(f'{where}, {names[column]}: found "", expected an integer >= {least}')
        return value

    lower = required("lower", 0)
    upper = required("upper", lower + 1 - inclusive) + inclusive
    size = required("size", 0)
    offset, hint = integer("offset", -1), integer("hint", -1)
    gaps = tuple(_gap(word, where, inclusive) for word in cells.get("gaps", "").split())
    try:
        return Buffer(
            id=cells["id"],
            lower=lower,
            upper=upper,
            size=size,
            alignment=integer("alignment", 1) or 1,
            offset=None if offset == -1 else offset,
            hint=None if hint == -1 else hint,
            gaps=gaps,
            pool=cells.get("pool", ""),
            traffic=integer("traffic", 0),
        )
    except InstanceError as error:
        known = str(error).startswith(where)
        half_open = " (times as half-open intervals)" if inclusive and gaps else ""
        raise InstanceError(str(error) if known else f"{where}: {error}{half_open}") from None


def _integer(cell: str, where: str, least: int) -> int | None:
    """Return the integer of a cell, None if it is empty."""
    text = cell.strip()
    if not text:
        return None
    value = int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else None
    if value is None or value < least:
        raise InstanceError(f"{where}: found {show(cell)}, expected an integer >= {least}")
    return value


def _gap(word: str, where: str, inclusive: bool) -> Gap:
    match = _GAP.fullmatch(word)
    if match is None:
        raise InstanceError(
            f"{where}, gaps: found {show(word)}, expected LOWER-UPPER or LOWER-UPPER@LOW:HIGH"
        )
    lower, upper, low, high = (int(group or 0) for group in match.groups())
    return Gap(lower, upper + inclusive, low, high)


def _words(cell: str, where: str) -> list[str]:
    """Return the ids of a cell that `_joined` made."""
    try:
        rows = list(csv.reader(io.StringIO(cell, newline=""), delimiter=" ", strict=True))
    except csv.Error as error:
        raise InstanceError(f"{where}, inplace: found {error}, expected ids separated by blanks") from None
    return [word for row in rows for word in row]


def _joined(cells: Sequence[str], delimiter: str) -> str:
    """Return a row, without its end; quoted where a reader needs it."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n")


def _cells(b: Buffer, solution: int | None) -> dict[str, str]:
    """Return what a row says beyond the defaults."""
    cells = {"id": as_cell(b.id), "lower": str(b.lower), "upper": str(b.upper), "size": str(b.size)}
    if b.alignment != 1:
        cells["alignment"] = str(b.alignment)
    if b.hint is not None:
        cells["hint"] = str(b.hint)
    if b.gaps:
        cells["gaps"] = " ".join(
            f"{g.lower}-{g.upper}" + (f"@{g.low}:{g.high}" if g.high else "") for g in b.gaps
        )
    if (offset := b.offset if solution is None else solution) is not None:
        cells["offset"] = str(offset)
    if b.pool:
        cells["pool"] = as_cell(b.pool)
    if b.traffic is not None:
        cells["traffic"] = str(b.traffic)
    return cells

"""The ledger of committed tables: how many rows each has, a hash of each column, and what has no witness.

``ledger.json`` beside ``tables.toml`` is the second place of every number: a cell, a row or a column that
changed in the table alone is found, figures of other people's papers and seconds among them. It is written by
``python -m lowtide.results.experiments ledger``, and by nothing else once a table was made.

::

    {"format": "lowtide/ledger", "version": 1, "tables": {NAME: {
     "rows": 36, "columns": {"seconds": "1f0c…"}, "unwitnessed": {"optimal": 3}}}}

``unwitnessed`` is what `lowtide.results.audits.witnessed` counts; counts of 0 are left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import (
    TEXT,
    Field,
    check_header,
    check_object,
    is_object,
    is_size,
    parse_json,
    read_bytes,
    required,
)
from ...models.files import write_whole
from ..tables.declared import TABLE, read_declared

LEDGER = "ledger.json"

_HEAD = {
    "format": required(TEXT),
    "version": required(Field(is_size, "an integer")),
    "tables": required(Field(is_object, "an object by table")),
}
_COUNTS = Field(lambda v: is_object(v) and all(map(is_size, v.values())), "a count by what it counts")
_TABLE = {
    "rows": required(Field(is_size, "an integer >= 0")),
    "columns": required(Field(is_object, "a hash by column")),
    "unwitnessed": _COUNTS,
}


def entry_of(content: bytes) -> dict[str, Any]:
    """Return what the ledger says of a table: the number of rows and a hash by column."""
    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    columns = {}
    for i, name in enumerate(header):
        text = json.dumps([row[i] if i < len(row) else None for row in rows])
        columns[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"rows": len(rows), "columns": columns}


def read_ledger(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Return the entries of a folder's ledger by table; None if it has none.

    Raises
    ------
    InstanceError
        If the file is not of the format.
    """
    path = folder / LEDGER
    if not path.is_file():
        return None
    data = parse_json(read_bytes(path), str(path))
    check_header(data, "ledger", str(path))
    check_object(data, _HEAD, str(path))
    for name, entry in data["tables"].items():
        check_object(entry, _TABLE, f"{path}: {name}")
    tables: dict[str, dict[str, Any]] = data["tables"]
    return tables


def write_ledger(folder: Path, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a ledger, a column on each line."""
    data = {"format": "lowtide/ledger", "version": 1, "tables": dict(sorted(tables.items()))}
    write_whole(folder / LEDGER, (json.dumps(data, indent=1) + "\n").encode())


def ledger_of(folder: Path, unwitnessed: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, Any]]:
    """Return the entries of a folder's tables as they are now, with what an audit counted."""
    entries = {}
    for name in read_declared(folder) or ():
        path = folder / name / TABLE
        counts = {lacking: n for lacking, n in sorted(unwitnessed.get(name, {}).items()) if n}
        content = (path if path.is_file() else folder / f"{name}.csv").read_bytes()
        entries[name] = {**entry_of(content), **({"unwitnessed": counts} if counts else {})}
    return entries


def ledger_faults(entry: Mapping[str, Any] | None, content: bytes) -> Iterator[str]:
    """Yield what a table says otherwise than its entry in the ledger does."""
    if entry is None:
        yield f"found no entry in {LEDGER}, expected one"
        return
    known = entry_of(content)
    if known["rows"] != entry["rows"]:
        yield f"found {known['rows']} rows, expected {entry['rows']}, as {LEDGER} says"
    for name in sorted({*known["columns"], *entry["columns"]}):
        if known["columns"].get(name) != entry["columns"].get(name):
            yield f"column {name!r}: found other cells than {LEDGER} knows"

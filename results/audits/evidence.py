"""Where claims are read from: experiments, tables, single records, best-known files.

* the folder of an experiment (it has a folder ``records``);
* a run record in a file of its own, ``*.json``;
* a committed table: ``*.jsonl`` or ``*.jsonl.gz`` with one record a line, or ``*.csv`` with at least the
  columns of `COLUMNS`, or one of which a file ``tables.toml`` beside it says what it claims, or, of a
  ``NAME/table.csv``, one beside ``NAME`` (`lowtide.results.tables.declared`); paths count from the folder of
  the table;
* a best-known file (`lowtide.results.audits.best_known`);
* any folder around these. What else is in it is passed over, but a ``*.csv`` that is none of these
  is a fault.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import parse_json, read_bytes, show
from ...instances.spec import resolved_spec
from ...models.errors import InstanceError
from ...models.texts import from_cell
from ..tables.declared import (
    FILE,
    TABLE,
    declared_of,
    is_elsewhere,
    needed_columns,
    read_declared,
    records_of_row,
)
from ..tables.store import read_records
from .best_known import FORMAT, best_known_files, claims_of, read_best_known
from .claims import Claim, claim_of

COLUMNS = ("instance", "instance_sha256", "problem", "method", "status", "objective", "bound")
"""What a table must have that no ``tables.toml`` tells of."""


@dataclass(slots=True)
class Evidence:
    """Claims, and what could not be read as one.

    Attributes
    ----------
    malformed
        (where, message) of records that are none.
    unread
        (where, message) of tables that could not be read.
    tables
        Committed tables (``*.csv``, ``*.jsonl``) that were read.
    no_claims
        (table, why) of those that say that they claim nothing.
    elsewhere
        How many rows are about instances that cannot be loaded from here.
    """

    claims: list[Claim] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    no_claims: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: int = 0


def read_claims(
    paths: Sequence[str | os.PathLike[str]], *, without: str | os.PathLike[str] | None = None
) -> Evidence:
    """Return the claims of experiments, tables, records, best-known files, and of folders around them.

    A record without the hash of its instance (it ended before that was loaded) claims nothing.

    Parameters
    ----------
    paths
        Files and folders.
    without
        A best-known file, or a folder of them, that is left out.

    Raises
    ------
    InstanceError
        If a path that was named is missing or is none of these.
    """
    evidence = Evidence()
    seen = set() if without is None else {os.path.realpath(file) for file in best_known_files(without)}
    for path in map(Path, paths):
        if path.is_dir():
            for item in _walk(path):
                _read(item, evidence, seen, named=False)
            for file in sorted(path.rglob(FILE)):
                _missing(file, evidence)
        else:
            _read(path, evidence, seen, named=True)
    return evidence


def is_experiment(folder: Path) -> bool:
    """Return whether a folder is that of an experiment."""
    return (folder / "records").is_dir()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the experiments and the files under a folder, in a fixed order."""
    if is_experiment(folder):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__pycache__")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.name.endswith((".json", ".jsonl", ".jsonl.gz", ".csv")):
            yield path


def _read(path: Path, evidence: Evidence, seen: set[str], *, named: bool) -> None:
    real = os.path.realpath(path)
    if real in seen:
        return
    seen.add(real)
    if path.is_dir():
        _take(_records(path, evidence), str(path), path, evidence)
    elif path.name.endswith(".csv"):
        _read_table(path, evidence, named=named)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        evidence.tables.append(str(path))
        _take(_records(path, evidence), str(path), path.parent, evidence, _committed(path))
    else:
        _read_json(path, evidence, named=named)


def _committed(path: Path) -> str | None:
    """Return the name of a table if it is beside a word about tables, or in a folder beside one."""
    folders = (path.resolve().parent, path.resolve().parent.parent)
    return _called(path) if any((folder / FILE).is_file() for folder in folders) else None


def _called(path: Path) -> str:
    """Return the name of a committed table."""
    return path.resolve().parent.name if path.name == TABLE else path.name


def _missing(file: Path, evidence: Evidence) -> None:
    """Note the tables that a folder tells of, but does not have."""
    for name in read_declared(file.parent) or ():
        table = file.parent / f"{name}.csv"
        if not table.is_file() and not (file.parent / name / TABLE).is_file():
            evidence.unread.append((str(table), f"found no such file, expected it, as {FILE} tells of it"))


def _records(path: Path, evidence: Evidence) -> Iterable[tuple[int, Any]]:
    """Return the records of an experiment or of a file, numbered; damaged ones are malformed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = read_records(path)
    evidence.malformed.extend((str(path), str(w.message)) for w in caught)
    return enumerate(records, start=1)


def _read_table(path: Path, evidence: Evidence, *, named: bool) -> None:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise InstanceError(f"{path}: found bytes that are not UTF-8, expected a CSV table") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    columns = rows.fieldnames or ()
    declared = declared_of(path)
    if declared is not None and declared.no_claims is not None:
        evidence.no_claims.append((str(path), declared.no_claims))
        return
    needed = COLUMNS if declared is None else needed_columns(declared)
    missing = [key for key in needed if key not in columns]
    if missing:
        expected = "a table of records" if declared is None else f"what {FILE} tells of"
        words = f"found no column {missing[0]!r}, expected {expected}"
        if named and declared is None:
            raise InstanceError(f"{path}: {words}")
        if declared is None:
            words += f", or a word about the table in {FILE} beside it"
        evidence.unread.append((str(path), words))
        return
    evidence.tables.append(str(path))
    if declared is None:
        numbered = enumerate(({k: _cell(k, v) for k, v in row.items()} for row in rows), start=2)
        _take(numbered, str(path), path.parent, evidence, _committed(path))
        return
    for number, cells in enumerate(rows, start=2):
        row = {key: from_cell(text or "") for key, text in cells.items()}
        try:
            evidence.elsewhere += is_elsewhere(declared, row)
            records = list(records_of_row(declared, row, f"row {number}"))
        except InstanceError as error:
            evidence.malformed.append((f"{path}: row {number}", str(error)))
            continue
        _take(((number, record) for record in records), str(path), path.parent, evidence, _called(path))


def _cell(column: str, text: str | None) -> Any:
    """Return the value of a cell: empty is null, whole numbers are numbers where one must be."""
    if not text:
        return None
    if column in ("objective", "bound"):
        try:
            return int(text)
        except ValueError:
            return from_cell(text)
    text = from_cell(text)
    return {"true": True, "false": False}.get(text.lower(), text) if column == "verified" else text


def _read_json(path: Path, evidence: Evidence, *, named: bool) -> None:
    content = read_bytes(path)
    try:
        data = parse_json(content, str(path))
    except InstanceError:
        data = None
    if isinstance(data, dict) and data.get("format") == FORMAT:
        evidence.claims.extend(claims_of(read_best_known(path), str(path)))
    elif isinstance(data, dict) and {*COLUMNS} <= {*data}:
        _take([(0, {"name": path.name, **data})], str(path.parent), path.parent, evidence)
    elif named:
        raise InstanceError(
            f"{path}: found no object with {', '.join(COLUMNS)}, expected a run record of an experiment, "
            "a table of them or a best-known file"
        )


def _take(
    rows: Iterable[tuple[int, Any]], source: str, folder: Path, evidence: Evidence, table: str | None = None
) -> None:
    """Add the claims of records, which are numbered for those without a name."""
    for number, record in rows:
        name = str(record.get("name") or f"row {number}") if isinstance(record, dict) else f"row {number}"
        try:
            if not isinstance(record, dict):
                raise InstanceError(f"found {show(record)}, expected an object")
            claim = claim_of(record, source, name, folder, table)
            if claim is not None and table is not None:
                claim = replace(claim, instance=resolved_spec(claim.instance, str(folder)))
        except InstanceError as error:
            evidence.malformed.append((f"{source}: {name}", str(error)))
            continue
        if claim is not None:
            evidence.claims.append(claim)

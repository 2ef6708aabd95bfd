"""Where claims are read from: experiments, tables, single records, best-known files.

* the folder of an experiment (it has a folder ``records``);
* a run record in a file of its own, ``*.json``;
* a committed table: ``*.jsonl`` or ``*.jsonl.gz`` with one record a line, or ``*.csv`` with at least the
  columns of `NEEDED`, or one of which a file ``tables.toml`` beside it says what it claims, or, of a
  ``NAME/table.csv``, one beside ``NAME`` (`lowtide.results.tables.declared`); paths count from the folder of
  the table;
* a file of witnesses beside a table (`lowtide.results.audits.witnesses`);
* a best-known file (`lowtide.results.audits.best_known`);
* a set of the library (`lowtide.results.library.sets`), whose questions must load with their hashes;
* any folder around these. What else is in it is passed over, but a ``*.csv`` that is none of these
  is a fault.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import parse_json, read_bytes, show
from ...instances.spec import resolved_spec
from ...models.errors import InstanceError
from ...models.result import Status
from ...models.texts import from_cell
from ..library.sets import FORMAT as SET
from ..library.sets import LibrarySet, read_set
from ..tables.columns import Columns, column_faults, columns_from_dict, derived_faults, key_of
from ..tables.declared import (
    COLUMNS,
    FILE,
    TABLE,
    Declared,
    declared_of,
    is_elsewhere,
    needed_columns,
    read_columns,
    read_declared,
    records_of_row,
)
from ..tables.store import read_records
from .best_known import FORMAT, best_known_files, claims_of, read_best_known
from .claims import Claim, Question, claim_of
from .ledger import LEDGER, ledger_faults, read_ledger
from .witnesses import WITNESSES, read_witnesses

NEEDED = ("instance", "instance_sha256", "problem", "method", "status", "objective", "bound")
"""What a table must have that no ``tables.toml`` tells of."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a committed table, about the first question that it has."""

    table: str
    number: int
    cells: Mapping[str, Any]
    columns: Columns
    question: Question


@dataclass(slots=True)
class Evidence:
    """Claims, and what could not be read as one.

    Attributes
    ----------
    faults
        (kind, where, message) of what is wrong with records, tables and witnesses by themselves.
    tables
        Committed tables (``*.csv``, ``*.jsonl``) that were read.
    no_claims
        (table, why) of those that say that they claim nothing.
    elsewhere
        How many rows are about instances that cannot be loaded from here.
    rows
        Rows with derived cells.
    ledgers
        Those of folders all of whose tables were read.
    """

    claims: list[Claim] = field(default_factory=list)
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    no_claims: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: int = 0
    rows: list[TableRow] = field(default_factory=list)
    ledgers: list[Mapping[str, Mapping[str, Any]]] = field(default_factory=list)


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
                ledger = read_ledger(file.parent)
                evidence.ledgers += [] if ledger is None else [ledger]
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
        elif path.name.endswith((".json", ".jsonl", ".jsonl.gz", ".csv", WITNESSES)):
            yield path


def _read(path: Path, evidence: Evidence, seen: set[str], *, named: bool) -> None:
    real = os.path.realpath(path)
    if real in seen:
        return
    seen.add(real)
    if path.name == WITNESSES:
        _read_witnesses(path, evidence)
    elif path.is_dir():
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
            evidence.faults.append(
                ("table-unread", str(table), f"found no such file, expected it, as {FILE} tells of it")
            )


def _records(path: Path, evidence: Evidence) -> Iterable[tuple[int, Any]]:
    """Return the records of an experiment or of a file, numbered; damaged ones are malformed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = read_records(path)
    evidence.faults.extend(("malformed", str(path), str(w.message)) for w in caught)
    return enumerate(records, start=1)


def _read_witnesses(path: Path, evidence: Evidence) -> None:
    """Add the claims of a file of witnesses."""
    try:
        records = read_witnesses(path)
    except InstanceError as error:
        evidence.faults.append(("malformed", str(path), str(error)))
        return
    evidence.tables.append(str(path))
    before = len(evidence.claims)
    _take(enumerate(records, start=1), str(path), path.parent, evidence, _called(path.with_name(TABLE)))
    evidence.claims[before:] = [replace(claim, witness=True) for claim in evidence.claims[before:]]


def _check_table(path: Path, declared: Declared, content: bytes, evidence: Evidence) -> Columns | None:
    """Hold a committed table against its ledger and what is said of its columns."""
    folder = _folder_of(path)
    ledger = read_ledger(folder)
    if ledger is None:
        message = f"found no {LEDGER} in {folder}, expected one beside {FILE}"
        evidence.faults.append(("ledger-differs", str(path), message))
    for message in () if ledger is None else ledger_faults(ledger.get(declared.name), content):
        evidence.faults.append(("ledger-differs", str(path), message))
    said = read_columns(folder).get(declared.name)
    columns = None if said is None else columns_from_dict(said, f"{folder / FILE}, {COLUMNS}.{declared.name}")
    names = next(csv.reader(io.StringIO(content.decode(), newline="")), [])
    for message in column_faults(declared, columns, names):
        evidence.faults.append(("column-unclaimed", str(path), message))
    return columns


def _check_row(
    path: Path,
    number: int,
    row: Mapping[str, Any],
    declared: Declared,
    columns: Columns,
    evidence: Evidence,
    keys: set[tuple[str, ...]],
) -> None:
    """Note a row that is there twice, and one with derived cells."""
    where = f"{path}: row {number}"
    key = key_of(declared, columns, row)
    if key in keys:
        evidence.faults.append(
            ("row-doubled", where, f"found a second row of {show(list(key))}, expected one")
        )
    keys.add(key)
    sha256 = row.get(declared.questions[0].sha256) if declared.questions else None
    if columns.derived and sha256:
        question = (str(sha256), declared.questions[0].problem)
        evidence.rows.append(TableRow(str(path), number, row, columns, question))
    elif columns.derived:
        for message in derived_faults(columns, row, None):
            evidence.faults.append(("derived-differs", where, message))


def _folder_of(path: Path) -> Path:
    """Return the folder whose ``tables.toml`` tells of a table."""
    folder = path.resolve().parent
    return folder if (folder / FILE).is_file() else folder.parent


def _read_table(path: Path, evidence: Evidence, *, named: bool) -> None:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError:
        raise InstanceError(f"{path}: found bytes that are not UTF-8, expected a CSV table") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    columns = rows.fieldnames or ()
    declared = declared_of(path)
    kept = None if declared is None else _check_table(path, declared, text.encode(), evidence)
    keys: set[tuple[str, ...]] = set()
    if declared is not None and declared.no_claims is not None:
        evidence.no_claims.append((str(path), declared.no_claims))
        for number, row in enumerate(rows, start=2):
            if kept is not None:
                _check_row(path, number, row, declared, kept, evidence, keys)
        return
    needed = NEEDED if declared is None else needed_columns(declared)
    missing = [key for key in needed if key not in columns]
    if missing:
        expected = "a table of records" if declared is None else f"what {FILE} tells of"
        words = f"found no column {missing[0]!r}, expected {expected}"
        if named and declared is None:
            raise InstanceError(f"{path}: {words}")
        if declared is None:
            words += f", or a word about the table in {FILE} beside it"
        evidence.faults.append(("table-unread", str(path), words))
        return
    evidence.tables.append(str(path))
    if declared is None:
        numbered = enumerate(({k: _cell(k, v) for k, v in row.items()} for row in rows), start=2)
        _take(numbered, str(path), path.parent, evidence, _committed(path))
        return
    for number, cells in enumerate(rows, start=2):
        row = {key: from_cell(text or "") for key, text in cells.items()}
        if kept is not None:
            _check_row(path, number, row, declared, kept, evidence, keys)
        try:
            evidence.elsewhere += is_elsewhere(declared, row)
            records = list(records_of_row(declared, row, f"row {number}"))
        except InstanceError as error:
            evidence.faults.append(("malformed", f"{path}: row {number}", str(error)))
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
    elif isinstance(data, dict) and data.get("format") == SET:
        evidence.tables.append(str(path))
        evidence.claims.extend(_questions(read_set(path), str(path)))
    elif isinstance(data, dict) and {*NEEDED} <= {*data}:
        _take([(0, {"name": path.name, **data})], str(path.parent), path.parent, evidence)
    elif named:
        raise InstanceError(
            f"{path}: found no object with {', '.join(NEEDED)}, expected a run record of an experiment, "
            "a table of them or a best-known file"
        )


def _questions(one_set: LibrarySet, source: str) -> Iterator[Claim]:
    """Yield the questions of a set as claims without values: the audit loads each, as it does with rows."""
    for entry in one_set.entries:
        yield Claim(
            source=source,
            name=entry.id,
            instance=entry.spec,
            sha256=entry.sha256,
            problem=one_set.problem,
            method="none",
            status=Status.UNKNOWN,
            table=one_set.name,
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
            evidence.faults.append(("malformed", f"{source}: {name}", str(error)))
            continue
        if claim is not None:
            evidence.claims.append(claim)

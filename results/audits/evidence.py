"""Where claims are read from: experiments, tables, single records, best-known files.

* the folder of an experiment (it has a folder ``records``);
* a run record in a file of its own, ``*.json``;
* a committed table: ``*.jsonl`` or ``*.jsonl.gz`` with one record a line, or ``*.csv`` with at least the
  columns of `COLUMNS` (a ``plan`` counts from the folder of the table);
* a best-known file (`lowtide.results.audits.best_known`);
* any folder around these. What else is in it is passed over.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...instances.strict_json import parse_json, read_bytes, show
from ...models.errors import InstanceError
from ...models.texts import from_cell
from ..tables.store import read_records
from .best_known import FORMAT, claims_of, read_best_known
from .claims import Claim, claim_of

COLUMNS = ("instance", "instance_sha256", "problem", "method", "status", "objective", "bound")
"""What a table must have."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Claims, and what could not be read as one.

    Attributes
    ----------
    malformed
        (where, message) of records that are none.
    passed_over
        Tables that lack a column, in words.
    """

    claims: list[Claim] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def read_claims(paths: Sequence[str | os.PathLike[str]]) -> Evidence:
    """Return the claims of experiments, tables, records, best-known files, and of folders around them.

    A record without the hash of its instance (it ended before that was loaded) claims nothing.

    Raises
    ------
    InstanceError
        If a path that was named is missing or is none of these.
    """
    evidence = Evidence()
    seen: set[str] = set()
    for path in map(Path, paths):
        if path.is_dir():
            for item in _walk(path):
                _read(item, evidence, seen, named=False)
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
        _read_records(path, path, evidence)
    elif path.name.endswith(".csv"):
        _read_table(path, evidence, named=named)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        _read_records(path, path.parent, evidence)
    else:
        _read_json(path, evidence, named=named)


def _read_records(path: Path, folder: Path, evidence: Evidence) -> None:
    """Take the records of an experiment or of a file; damaged ones are malformed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = read_records(path)
    evidence.malformed.extend((str(path), str(w.message)) for w in caught)
    _take(enumerate(records, start=1), str(path), folder, evidence)


def _read_table(path: Path, evidence: Evidence, *, named: bool) -> None:
    try:
        rows = csv.DictReader(io.StringIO(read_bytes(path).decode()))
    except UnicodeDecodeError:
        raise InstanceError(f"{path}: found bytes that are not UTF-8, expected a CSV table") from None
    missing = [key for key in COLUMNS if key not in (rows.fieldnames or ())]
    if missing and named:
        raise InstanceError(f"{path}: found no column {missing[0]!r}, expected a table of records")
    if missing:
        evidence.passed_over.append(f"{path}: no column {missing[0]!r}")
        return
    numbered = enumerate(({k: _cell(k, v) for k, v in row.items()} for row in rows), start=2)
    _take(numbered, str(path), path.parent, evidence)


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


def _take(rows: Iterable[tuple[int, Any]], source: str, folder: Path, evidence: Evidence) -> None:
    """Add the claims of records, which are numbered for those without a name."""
    for number, record in rows:
        name = str(record.get("name") or f"row {number}") if isinstance(record, dict) else f"row {number}"
        try:
            if not isinstance(record, dict):
                raise InstanceError(f"found {show(record)}, expected an object")
            claim = claim_of(record, source, name, folder)
        except InstanceError as error:
            evidence.malformed.append((f"{source}: {name}", str(error)))
            continue
        if claim is not None:
            evidence.claims.append(claim)

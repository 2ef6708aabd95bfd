"""What the scripts of committed tables share: calls of the command line, experiments, files of tables.

A table is a ``.csv`` of its rows and a ``.md`` for people; README.md has a copy of some (`readme`).
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.models.texts import as_cell, from_cell
from lowtide.results.tables.store import read_records

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Row = dict[str, Any]


def lowtide(*arguments: str | Path) -> None:
    """Carry out one call of the command line; its failure ends the script."""
    done = subprocess.run([sys.executable, "-m", "lowtide", *map(str, arguments)], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def records_of(plan: str | Path, out: str | None, *, jobs: str = "1") -> list[Row]:
    """Carry out an experiment and return its records.

    Parameters
    ----------
    plan
        The experiment; the path counts from the root of the repository.
    out
        Its folder, which is kept, and gone on with where it exists; None: one that does not stay.
    jobs
        Runs at a time.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(out or f"{scratch}/runs").resolve()
        begin = ("--resume", folder) if folder.exists() else (plan, "--out", folder)
        lowtide("bench", *begin, "--jobs", jobs)
        return read_records(folder)


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the columns of rows as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: as_cell(v) if isinstance(v, str) else v for k, v in row.items()})


def write_table(
    name: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    text: str,
    *,
    folder: Path = HERE,
) -> None:
    """Write both files of a table."""
    write_rows(folder / f"{name}.csv", columns, rows)
    (folder / f"{name}.md").write_text(text)


def read_table(name: str) -> list[Row]:
    """Return the rows of a committed table: numbers, text, and None where there is nothing."""
    with (HERE / f"{name}.csv").open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> int | float | str | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return from_cell(text) or None

"""What the scripts of committed tables share: calls of the command line, experiments, files of tables.

A table is a ``.csv`` of its rows and a ``.md`` for people; README.md has a copy of some (`readme`).
"""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide.instances.spec import parse_spec
from lowtide.models.texts import as_cell, from_cell
from lowtide.results.tables.declared import columns_with_questions, read_declared, with_questions
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
    """Write the columns of rows as a CSV file, and those of the questions that ``tables.toml`` tells of."""
    declared = (read_declared(HERE) or {})[path.stem]
    columns = columns_with_questions(declared, columns)
    rows = with_questions(declared, rows, HERE)
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


def peer_is_there(package: str, name: str) -> bool:
    """Return whether a package that a table compares with is installed; if not, say that the table stays."""
    if importlib.util.find_spec(package) is not None:
        return True
    print(f"{name}: found no package {package} to compare with, the table stays", file=sys.stderr)
    return False


def from_here(spec: str) -> str:
    """Return a specification as a table has it: the path of a file counts from this folder."""
    parsed = parse_spec(spec)
    if parsed.scheme not in ("path", "native"):
        return spec
    return str(replace(parsed, name=os.path.relpath(os.path.abspath(parsed.name), HERE)))


def two_tiers(
    name: str, tiers: tuple[str, str], rate: int, latency: int = 0, *, capacity: int | None = None
) -> str:
    """Write a machine with a fast memory and one behind it; return its file, counted from this folder.

    Parameters
    ----------
    name
        Of the machine and of the file.
    tiers
        Names of the fast memory and of the other one.
    rate, latency
        Bytes per second and nanoseconds before a copy, each way.
    capacity
        Bytes of the other one; the fast memory's is part of the question.
    """
    lines = [f'name = "{name}"']
    lines += [f'\n[[tiers]]\nname = "{tier}"' for tier in tiers]
    lines += [] if capacity is None else [f"capacity = {capacity}"]
    lines += [f'\n[[processors]]\nname = "{tiers[0]}0"\ntiers = ["{tiers[0]}"]']
    for src, dst in (tiers, tiers[::-1]):
        lines += [f'\n[[channels]]\nsrc = "{src}"\ndst = "{dst}"\nbytes_per_s = {rate}']
        lines += [f"latency_ns = {latency}"] if latency else []
    path = HERE / "machines" / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return f"machines/{path.name}"


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

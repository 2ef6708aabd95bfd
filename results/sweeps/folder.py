"""The folder of an experiment: where each file lies, and how runs and records are written and read.

::

    experiment.toml                       what it was started with
    runs.json                             the runs in the order in which they are started, one a line
    records/<2 digits>/<name>.json        what a finished run left; written whole, or not at all
    logs/<2 digits>/<name>.log            what the run and its solver said
    plans/<2 digits>/<name>.json.gz       the execution plan, if the experiment keeps plans
    lock                                  who works on the folder

Nothing else is needed to go on after any fault: a run is done when its record is there. All of it works
on a folder that several machines share.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import parse_json, read_bytes, read_json
from ...models.errors import InstanceError, UsageError
from ...models.files import write_whole
from .runspec import RunSpec


class FolderError(UsageError):
    """The folder cannot be written (full, gone, read-only): the run has no record and is to be repeated."""


def record_path(out: Path, name: str) -> Path:
    """Return where the record of a run lies."""
    return out / "records" / name[:2] / f"{name}.json"


def log_path(out: Path, name: str) -> Path:
    """Return where the log of a run lies."""
    return out / "logs" / name[:2] / f"{name}.log"


def plan_path(out: Path, name: str) -> Path:
    """Return where the execution plan of a run lies, if it is kept."""
    return out / "plans" / name[:2] / f"{name}.json.gz"


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, with its folders.

    Raises
    ------
    FolderError
        If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise FolderError(f"{path}: found {error.strerror}, expected a folder to write to") from None
    except UsageError as error:
        raise FolderError(str(error)) from None


def write_record(out: Path, record: Mapping[str, Any]) -> Path:
    """Write the record of a run and return its path.

    Raises
    ------
    FolderError
        If it cannot be written; a record that was there before is unharmed.
    """
    path = record_path(out, record["name"])
    write_file(path, json.dumps(record, allow_nan=False).encode() + b"\n")
    return path


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the record of a file; None if there is none, or no whole one: such a run is to be repeated."""
    try:
        record = read_json(path)
    except InstanceError:
        return None
    if isinstance(record, dict) and record.get("name") == path.stem and "status" in record:
        return record
    return None


def record_files(out: Path) -> Iterator[Path]:
    """Yield the record files of a folder; unfinished temporary files are none."""
    root = out / "records"
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        yield from sorted(folder.glob("[!.]*.json"))


def write_runs(out: Path, runs: Iterable[RunSpec]) -> None:
    """Write the list of runs, one a line.

    Raises
    ------
    FolderError
        If it cannot be written.
    """
    lines = ",\n".join(json.dumps(run.to_dict(), allow_nan=False) for run in runs)
    write_file(out / "runs.json", f"[\n{lines}\n]\n".encode())


def begin(out: Path, content: bytes, runs: Sequence[RunSpec]) -> None:
    """Write the list of runs of an experiment and the file that it was made from.

    Records that lie there already stay; those of the same names count.

    Raises
    ------
    FolderError
        If it cannot be written.
    """
    write_file(out / "experiment.toml", content)
    write_runs(out, runs)


def check_begin(out: Path) -> None:
    """Raise `UsageError` unless an experiment can begin or go on in the folder; nothing is written."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: found a file, expected a folder")
    if out.is_dir() and not (out / "runs.json").exists():
        others = [path.name for path in out.iterdir() if path.name not in ("experiment.toml", "lock")]
        if others:
            raise UsageError(f"{out}: found {others[0]!r} in it, expected a new or empty folder")


def read_runs(out: Path) -> list[RunSpec]:
    """Return the runs of an experiment in the order in which they are started.

    Raises
    ------
    InstanceError
        If the folder holds no experiment, or its list is damaged.
    """
    where = _runs_file(out)
    rows = parse_json(read_bytes(where), str(where))
    if not isinstance(rows, list):
        raise InstanceError(f"{where}: found no list, expected one of runs")
    return [RunSpec.from_dict(row, f"{where}, run {i}") for i, row in enumerate(rows)]


def read_run(out: Path, name: str) -> RunSpec:
    """Return one run of an experiment, without reading the others.

    Raises
    ------
    InstanceError
        If the folder holds no experiment or no such run.
    """
    where = _runs_file(out)
    content = read_bytes(where)
    at = content.find(f'{{"name": "{name}"'.encode())
    if at < 0 or len(name) != 16:
        raise InstanceError(f"{where}: found no run {name!r}, expected one of its names")
    line = content[at : content.find(b"\n", at)].rstrip(b",")
    return RunSpec.from_dict(parse_json(line, str(where)), f"{where}, run {name}")


def pending(
    out: Path, runs: Sequence[RunSpec], retry: Iterable[str] = ()
) -> tuple[list[RunSpec], dict[str, dict[str, Any]]]:
    """Return the runs that have no whole record, or one of a status in `retry`; and the other records."""
    again, left, done = set(retry), [], {}
    for run in runs:
        record = read_record(record_path(out, run.name))
        if record is None or record["status"] in again:
            left.append(run)
        else:
            done[run.name] = record
    return left, done


def _runs_file(out: Path) -> Path:
    where = out / "runs.json"
    if not os.path.exists(where):
        raise InstanceError(f"{out}: found no runs.json, expected the folder of an experiment")
    return where

"""What experiments share: their folders and files, runs of the command line, cases, machines of two tiers.

An experiment is a folder here with a module ``table.py``. Its docstring says what is measured; it has

* ``text(rows)``, which returns the fields of ``text.md``, the template of ``table.md``, besides the module's
  constants and the number of ``rows``; without it: ``{table}`` is ``TABLE.of(rows)``;
* ``excerpt(rows)``, the same of ``excerpt.md`` or of ``text.md``, where documents have a part of it;
* ``rows(records)``, where ``experiment.toml`` says what ``lowtide bench`` runs (``experiment(folder)``: makes
  another file; `JOBS`: runs at a time), or ``cases(...)``, which yields one `Case` after the other; its
  arguments are options of the command;
* ``together(rows)``, which returns the rows of all cases, where cells of some come from others;
* ``row(*words)``, where rows are measured in a process of their own (`apart`);
* ``THREADS``, where its cases take more than one;
* ``draw()``, where pictures belong to it.

Every row says besides when, by which version and on which machine it was measured (`made_now`, `made_by`).
A folder without rows has a module ``make.py``, with ``make(...)``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..._version import __version__
from ...instances.spec import parse_spec
from ...models.errors import UsageError
from ..sweeps.folder import read_runs
from ..sweeps.record import load_average, machine, now
from ..sweeps.sweep_instances import expand
from ..tables.declared import TABLE, declared_of
from ..tables.spec import Row, read_csv, write_csv
from ..tables.store import read_records

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Runs = dict[str, dict[str, Any]]
"""The records of one instance by method."""


class Case(NamedTuple):
    """A part of an experiment: its name, and what measures its rows."""

    name: str
    measure: Callable[[], Iterable[Row]]


def say(line: str) -> None:
    """Tell how far it is, on standard error."""
    print(line, file=sys.stderr, flush=True)


def lowtide(*arguments: str | Path) -> None:
    """Carry out one call of the command line, all it says to standard error; its failure ends all."""
    call = [sys.executable, "-m", "lowtide", *map(str, arguments)]
    done = subprocess.run(call, cwd=ROOT, stdout=2, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def apart(name: str, *words: str, seconds: float | None = None) -> list[Row]:
    """Return the rows that an experiment measures in a process of its own.

    Raises
    ------
    subprocess.TimeoutExpired
        If it took longer than so many seconds.
    subprocess.CalledProcessError
        If it failed.
    """
    call = [sys.executable, "-m", __package__, name, "--row", *words]
    done = subprocess.run(call, capture_output=True, text=True, timeout=seconds, check=True)
    found: list[Row] = json.loads(done.stdout)
    return found


def records_of(
    experiment: Callable[[Path], Path], out: Path | None, *, only: str = "", jobs: int = 1
) -> list[dict[str, Any]]:
    """Carry out a file of ``lowtide bench`` and return its records.

    Parameters
    ----------
    experiment
        Returns the file, which it may write into a folder.
    out
        Its folder, which is kept, and gone on with where it exists; None: one that does not stay.
    only
        What the instances of its runs contain.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = (out or Path(scratch) / "runs").resolve()
        begin = ("--resume", folder) if folder.exists() else (experiment(Path(scratch)), "--out", folder)
        if only:
            lowtide("bench", *begin, "--prepare")
            names = [run.name for run in read_runs(folder) if only in run.instance]
            if not names:
                raise UsageError(f"--only: found no instance that contains {only!r}")
            lowtide("job", folder, *names)
        else:
            lowtide("bench", *begin, "--jobs", str(jobs))
        return read_records(folder)


def experiment_of(name: str) -> dict[str, Any]:
    """Return what the ``experiment.toml`` of an experiment says."""
    return tomllib.loads((HERE / name / "experiment.toml").read_text())


def instances_of(name: str) -> list[str]:
    """Return the instances of an ``experiment.toml``, each once."""
    texts = [text for runs in experiment_of(name)["runs"] for text in runs["instances"]]
    return list(dict.fromkeys(source.spec for text in texts for source in expand(text, HERE / name)))


def by_instance(records: Iterable[dict[str, Any]]) -> dict[str, Runs]:
    """Return the records by instance and method.

    Raises
    ------
    UsageError
        If an objective has not passed the verifier.
    """
    found: dict[str, Runs] = {}
    for record in records:
        if record["objective"] is not None and not record["verified"]:
            raise UsageError(f"{record['spec']}, {record['method']}: {record['detail']}")
        found.setdefault(record["spec"], {})[record["method"]] = record
    return found


def made_now(threads: int, seconds: float) -> Row:
    """Return the cells of rows that were just measured: day, version, machine, and what they took."""
    on = {**machine(), "load": load_average()}
    return {**_made(now(), __version__, on, threads), "case_seconds": round(seconds, 1)}


def made_by(records: Iterable[dict[str, Any]]) -> Row:
    """Return the cells of rows that come from run records: those of the last run."""
    last = max(records, key=lambda record: record["started"])
    return _made(last["started"], last["version"], last["machine"], last["limits"]["threads"])


def _made(started: str, version: str, on: Mapping[str, Any], threads: int) -> Row:
    words = f"{on['cores']} cores, {on['cpu']}, load {on['load']}"
    return {"date": started[:10], "version": version, "machine": words, "threads": threads}


def seconds_of(record: dict[str, Any], *parts: str) -> float:
    """Return the seconds of these parts of a run, of all parts where none is named."""
    return float(
        sum(record["seconds"].get(part) or 0.0 for part in parts or ("load", "build", "solve", "verify"))
    )


def peer_is_there(package: str) -> None:
    """Raise `UsageError` unless a package that a table compares with is installed."""
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"found no package {package} to compare with; the table stays as it is")


def from_folder(spec: str, folder: Path) -> str:
    """Return a specification as a table in a folder has it: paths of files count from there."""
    parsed = parse_spec(spec)
    if parsed.scheme in ("path", "native"):
        spec = str(replace(parsed, name=os.path.relpath(os.path.abspath(parsed.name), folder)))
    return spec.replace(f"{folder}{os.sep}", "")  # of a machine


def two_tiers(
    folder: Path,
    name: str,
    tiers: tuple[str, str],
    rate: int,
    latency: int = 0,
    *,
    capacity: int | None = None,
) -> str:
    """Write a machine with a fast memory and one behind it; return its file, counted from the folder.

    Parameters
    ----------
    folder
        Of the table; the file is in ``machines`` in it.
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
    path = folder / "machines" / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return f"machines/{path.name}"


def read_rows(name: str) -> list[Row]:
    """Return the committed rows of an experiment."""
    return read_csv(HERE / name / TABLE)


def write_rows(name: str, rows: list[Row]) -> None:
    """Write the rows of an experiment, with the questions that ``tables.toml`` says they are about."""
    path = HERE / name / TABLE
    declared = declared_of(path)
    assert declared is not None, f"tables.toml does not tell of {name}"
    write_csv(path, rows, declared)


def with_best_bounds(rows: list[Row]) -> list[Row]:
    """Return rows with ``best``, the greatest bound in any row about the same question."""
    best: dict[str, int] = {}
    for row in rows:
        best[row["instance"]] = max(best.get(row["instance"], 0), row["bound"] or 0)
    return [{**row, "best": best[row["instance"]]} for row in rows]


def into_documents(name: str, text: str) -> list[Path]:
    """Replace what stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; return where that was."""
    block = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    found = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        old = path.read_text()
        if block.search(old):
            path.write_text(block.sub(lambda match: match[1] + text + match[2], old))
            found.append(path)
    return found

"""The store: run records of experiments as a list of objects or as one pandas frame.

An experiment's folder holds one JSON file per run, ``records/<first two letters>/<name>.json``. They are
the data; nothing else is needed to read them. `frame` keeps a flat copy of all of them in one file of
that folder, so that the next reading is fast. A record is taken from there only if its file still has
the size, the time of change and the inode it had then: a record that was rewritten (a new file that took
the old one's place), removed or added since is noticed, and only what is new is read. The copy is
written whole or not at all, may be deleted at any time, and is not written where the folder cannot be.

A file of records, one JSON object per line (``.jsonl``, ``.jsonl.gz``) or a single one (``.json``), is
read wherever a folder is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...instances.formats.strict_json import read_json
from ...models.errors import InstanceError, UsageError
from ..sweeps.record_files import DamagedRecordWarning, is_experiment, read_file, read_places, stamps
from .store_index import EMPTY, Index, read_index, write_index

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DamagedRecordWarning", "flat", "frame", "missing_runs", "read_records", "setting"]

Folders = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_ALWAYS = ("name", "instance", "problem", "method", "setting", "status", "objective", "bound")
_NESTED = (dict, list)
_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_WORTH_WRITING = 100
"""The flat copy is renewed when more than one of this many rows has changed: writing takes a while."""


def read_records(folders: Folders) -> list[dict[str, Any]]:
    """Return the run records of one or more experiments, by folder and name.

    Each is what its file holds, and ``folder``, the one it was found in (the paths ``log`` and ``plan``
    count from there). A record that is in several folders is returned once, as the last of them has it.

    Parameters
    ----------
    folders
        Folders of experiments, or files of records.

    Raises
    ------
    UsageError
        If a folder or file is missing, or holds no records.

    Warns
    -----
    DamagedRecordWarning
        For each file that holds no run record; it is left out.
    """
    records: dict[Any, dict[str, Any]] = {}
    for folder in _each(folders):
        items = read_places(folder, stamps(folder)) if is_experiment(folder) else read_file(folder)
        for place, values in items:
            records[values.get("name", (folder, place))] = {**values, "folder": folder}
    return list(records.values())


def frame(folders: Folders, *, cache: bool = True) -> pd.DataFrame:
    """Return one row per record; see `flat` for the columns.

    Parameters
    ----------
    folders
        Folders of experiments, or files of records.
    cache
        Use and renew the flat copy in each folder.

    Returns
    -------
    pandas.DataFrame
        Whole numbers have the type ``Int64`` (exact, with ``NA`` where absent). The rows are by folder
        and name; a record that is in several folders has the row of the last.

    Raises
    ------
    UsageError
        If a folder or file is missing, or holds no records.

    Warns
    -----
    DamagedRecordWarning
        For each file that holds no run record; it is left out.
    """
    import pandas as pd

    parts = []
    for folder in _each(folders):
        if is_experiment(folder):
            columns = _columns_of(folder, cache=cache)
        else:
            columns = _columns(flat(values) for _, values in read_file(folder))
        parts.append(_typed({**columns, "folder": [folder] * len(columns["status"])}))
    if len(parts) == 1:
        return parts[0]
    whole = pd.concat(parts, ignore_index=True)
    again = whole["name"].notna() & whole.duplicated("name", keep="last")
    return whole[~again].reset_index(drop=True)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as one level of keys and scalars.

    ``{"seconds": {"solve": 2}}`` becomes ``seconds_solve``; a list, such as ``trace``, becomes its JSON
    text; ``certificate`` is left out. ``setting`` is added: the method with its parameters.

    Examples
    --------
    >>> flat({"method": "beam", "parameters": {"width": 16}, "trace": [[0.5, 12, None]]})
    {'method': 'beam', 'parameters_width': 16, 'trace': '[[0.5,12,null]]', 'setting': 'beam (width=16)'}
    """
    row: dict[str, Any] = {}
    for key, value in record.items():
        if key == "certificate":
            continue
        if type(value) is dict:
            for inner, item in value.items():
                row[f"{key}_{inner}"] = _text(item) if type(item) in _NESTED else item
        else:
            row[key] = _text(value) if type(value) is list else value
    row["setting"] = setting(record)
    return row


def setting(record: Mapping[str, Any]) -> str:
    """Return the method and, in parentheses, its parameters: what tables and figures compare.

    Examples
    --------
    >>> setting({"method": "beam", "parameters": {"width": 16, "rule": "cut"}})
    'beam (rule=cut, width=16)'
    """
    parameters = record.get("parameters") or {}
    words = ", ".join(f"{key}={parameters[key]}" for key in sorted(parameters))
    return f"{record['method']} ({words})" if words else str(record["method"])


def missing_runs(folder: str | os.PathLike[str]) -> int:
    """Return how many runs of an experiment have no record yet; 0 where its list of runs is not there."""
    try:
        names = {run["name"] for run in read_json(Path(folder, "runs.json"))}
    except (InstanceError, TypeError, KeyError):
        return 0
    return len(names - {Path(place).stem for place in stamps(os.fspath(folder))})


def _each(folders: Folders) -> list[str]:
    paths = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
    if not paths:
        raise UsageError("experiments: found none, expected the folder of at least one")
    return [os.fspath(folder) for folder in paths]


def _columns_of(folder: str, *, cache: bool) -> dict[str, list[Any]]:
    """Return the columns of an experiment, taken from the flat copy as far as it is still true."""
    # Listed before anything is read: a record that changes from now on has another stamp next time.
    now = stamps(folder)
    index = read_index(folder) if cache else EMPTY
    old = {p: row for row, (p, stamp) in enumerate(index.stamps.items()) if now.get(p) == stamp}
    fresh: list[str] = []

    def rows() -> Iterator[dict[str, Any]]:
        for place, values in read_places(folder, (p for p in now if p not in old)):
            fresh.append(place)
            yield flat(values)

    added = _columns(rows())
    gone = len(index.stamps) - len(old)
    if index is not EMPTY and not fresh and not gone:
        return dict(index.columns)
    row_of = old | {p: len(index.stamps) + k for k, p in enumerate(fresh)}
    places = [p for p in now if p in row_of]
    columns = _merged(index, added, [row_of[p] for p in places]) if index.stamps else added
    if cache and _WORTH_WRITING * (len(fresh) + gone) > len(places):
        write_index(folder, Index({p: now[p] for p in places}, columns))
    return columns


def _merged(index: Index, added: Mapping[str, list[Any]], order: list[int]) -> dict[str, list[Any]]:
    """Return the rows of the copy and the rows added after them, in the given order."""
    blank_old, blank_new = [None] * len(index.stamps), [None] * len(added["name"])
    merged = {}
    for key in dict.fromkeys([*index.columns, *added]):
        values = index.columns.get(key, blank_old) + added.get(key, blank_new)
        merged[key] = [values[k] for k in order]
    return merged


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the rows by columns; they are taken one by one, so that a hundred thousand need little room."""
    columns: dict[str, list[Any]] = {key: [] for key in _ALWAYS}
    for count, row in enumerate(rows):
        for key, value in row.items():
            if key in columns:
                columns[key].append(value)
            else:
                columns[key] = [None] * count + [value]
        if len(row) < len(columns):
            for column in columns.values():
                if len(column) == count:
                    column.append(None)
    return columns


def _typed(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Return the frame; the type of each column keeps its values exact."""
    import pandas as pd

    def typed(key: str, values: list[Any]) -> Any:
        kinds = {*map(type, values)} - {type(None)}
        if kinds == {int} or (key in ("objective", "bound") and not kinds):
            fits = all(-(2**63) <= value < 2**63 for value in values if value is not None)
            return pd.array(values, dtype="Int64") if fits else values
        if kinds and kinds <= {int, float}:
            return pd.array(values, dtype="float64")
        return pd.array(values, dtype="boolean") if kinds == {bool} else values

    return pd.DataFrame({key: typed(key, values) for key, values in columns.items()})

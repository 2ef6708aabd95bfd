"""The flat copy of an experiment's records: one file, by columns, that makes the next reading fast."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..._version import __version__
from ...instances.formats.strict_json import read_json
from ...models.errors import InstanceError, LowtideError
from ...models.files import write_whole
from ..sweeps.record_files import Stamp

FILE = "index.json.gz"
"""Its name in the experiment's folder."""

_FORMAT = {"format": "lowtide/index", "version": 1, "package": __version__}


class Index(NamedTuple):
    """The files it was made from, in the order of the rows, and the columns by name."""

    stamps: Mapping[str, Stamp]
    columns: Mapping[str, list[Any]]


EMPTY = Index({}, {})


def read_index(folder: str) -> Index:
    """Return the flat copy; an empty one if there is none, or none that can be used."""
    try:
        data = read_json(Path(folder, FILE))
        if any(data[key] != value for key, value in _FORMAT.items()):
            return EMPTY
        stamps = {place: (size, time, inode) for place, size, time, inode in data["stamps"]}
        columns = {key: _decoded(column) for key, column in data["columns"].items()}
    except (InstanceError, ValueError, TypeError, LookupError, AttributeError):
        return EMPTY
    return Index(stamps, columns) if {len(c) for c in columns.values()} <= {len(stamps)} else EMPTY


def write_index(folder: str, index: Index) -> None:
    """Write the flat copy, whole or not at all; do nothing where the folder cannot be written."""
    data = {
        **_FORMAT,
        "stamps": [[place, *stamp] for place, stamp in index.stamps.items()],
        "columns": {key: _encoded(values) for key, values in index.columns.items()},
    }
    content = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), compresslevel=1)
    try:
        write_whole(Path(folder, FILE), content)
    except LowtideError:
        return  # only for reading, or full: the next reading takes as long as this one did


def _encoded(values: list[Any]) -> Any:
    """Return a column; texts that repeat are stored once, with the number of each row's text."""
    if not all(value is None or type(value) is str for value in values):
        return values
    words = {word: k for k, word in enumerate(dict.fromkeys(values))}
    if 2 * len(words) > len(values):
        return values
    return {"words": list(words), "at": [words[value] for value in values]}


def _decoded(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    words = column["words"]
    return [words[k] for k in column["at"]]

"""Files of run records: where they lie, when they changed, and what is one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from ...instances.strict_json import parse_json, read_bytes
from ...models.errors import InstanceError, UsageError
from ...models.result import Status

Stamp = tuple[int, int, int]
"""Size, time of change in ns, and inode of a file."""

_TEXTS = ("instance", "problem", "method")
_NUMBERS = ("objective", "bound")


class DamagedRecordWarning(UserWarning):
    """A file that should hold a run record does not; it was left out."""


def is_experiment(folder: str) -> bool:
    """Return whether the path is an experiment's folder, rather than a file.

    Raises
    ------
    UsageError
        If there is nothing, or a folder without records.
    """
    if os.path.isdir(os.path.join(folder, "records")):
        return True
    if os.path.isdir(folder):
        raise UsageError(f"{folder}: found no folder 'records' in it, expected an experiment's folder")
    if not os.path.exists(folder):
        raise UsageError(f"{folder}: found no such folder or file, expected an experiment's folder")
    return False


def stamps(folder: str) -> dict[str, Stamp]:
    """Return the records of an experiment by their place, ``ab/abcd.json``, in the order of names."""
    found = {}
    for shelf in os.scandir(os.path.join(folder, "records")):
        if not shelf.is_dir():
            continue
        for entry in os.scandir(shelf.path):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                try:
                    stat = entry.stat()
                except FileNotFoundError:  # removed meanwhile
                    continue
                found[f"{shelf.name}/{entry.name}"] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return dict(sorted(found.items()))


def read_places(folder: str, places: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and record of those of an experiment that are there and whole; warn of the damaged."""
    base = os.path.join(folder, "records")
    for place in places:
        path = f"{base}/{place}"
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:
            _warn(path, str(error.strerror))
            continue
        values = _parse(content, path)
        if values is not None:
            yield place, values


def read_file(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield line number and record of a file: one a line (``.jsonl``, ``.jsonl.gz``), else a single one.

    Raises
    ------
    UsageError
        If it cannot be read.
    """
    try:
        content = read_bytes(path)
    except InstanceError as error:
        found = str(error).partition(", expected")[0]
        raise UsageError(f"{found}, expected a file of run records") from None
    lines = content.splitlines() if path.removesuffix(".gz").endswith(".jsonl") else [content]
    for number, line in enumerate(lines, start=1):
        if line.strip():
            values = _parse(line, f"{path}, line {number}" if len(lines) > 1 else path)
            if values is not None:
                yield str(number), values


def _parse(content: bytes, where: str) -> dict[str, Any] | None:
    try:
        values = parse_json(content, where)
    except InstanceError:
        _warn(where, "a damaged file")
        return None
    fault = _fault(values)
    if fault is not None:
        _warn(where, fault)
        return None
    assert isinstance(values, dict)
    return values


def _fault(values: Any) -> str | None:
    """Return what keeps a value from being a run record; only what all readers rely on is checked."""
    if not isinstance(values, dict):
        return "no object"
    for key in _TEXTS:
        if not isinstance(values.get(key), str):
            return f"{key} {values.get(key)!r}"
    for key in _NUMBERS:
        if not isinstance(values.get(key), int | float | None):
            return f"{key} {values[key]!r}"
    return None if values.get("status") in tuple(Status) else f"status {values.get('status')!r}"


def _warn(where: str, found: str) -> None:
    message = f"{where}: found {found}, expected a run record; it is left out"
    warnings.warn(message, DamagedRecordWarning, stacklevel=2)

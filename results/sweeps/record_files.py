"""Files of run records: where they lie, when they changed, and what is one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...instances.formats.strict_json import is_flag, is_object, is_text, parse_json, read_bytes, show
from ...models.errors import InstanceError, UsageError
from ...models.result import Status

Stamp = tuple[int, int, int]
"""Size, time of change in ns, and inode of a file."""

_TEXTS = ("instance", "problem", "method")
_LARGEST = 2**63
"""Numbers of records stay below it: tables keep 64-bit integers with a sign."""


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
    stamps = {}
    for shelf in os.scandir(os.path.join(folder, "records")):
        if not shelf.is_dir():
            continue
        for entry in os.scandir(shelf.path):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                try:
                    stat = entry.stat()
                except FileNotFoundError:  # removed meanwhile
                    continue
                stamps[f"{shelf.name}/{entry.name}"] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return dict(sorted(stamps.items()))


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
    """Return what keeps a value from being a run record: a field that is not what readers compute with."""
    if not isinstance(values, dict):
        return "no object"
    for key in _TEXTS:
        if not isinstance(values.get(key), str):
            return f"{key} {show(values.get(key))}"
    for keys, test in _TESTS:
        for key in keys:
            if values.get(key) is not None and not test(values[key]):
                return f"{key} {show(values[key])}"
    return None if values.get("status") in tuple(Status) else f"status {show(values.get('status'))}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(v is None or _is_number(v) for v in value.values())


def _is_trace(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(point, list)
        and len(point) >= 3
        and _is_number(point[0])
        and all(v is None or _is_number(v) for v in point[1:3])
        for point in value
    )


_TESTS: tuple[tuple[tuple[str, ...], Callable[[object], bool]], ...] = (
    (("name", "reason", "proof", "bound_kind", "detail", "plan", "unit", "graph", "spec", "folder"), is_text),
    (("instance_sha256", "version", "source_hash", "git_commit", "killed_by", "started", "log"), is_text),
    (("objective", "bound", "gap", "seed", "cpu_seconds", "peak_rss", "returncode"), _is_number),
    (("stall", "recomputed"), _is_number),
    (("seconds", "limits", "peaks", "traffic"), _is_numbers),
    (("parameters", "versions", "machine", "facts"), is_object),
    (("verified",), is_flag),
    (("trace",), _is_trace),
)
"""What the fields must be where they are there, and not null."""


def _warn(where: str, found: str) -> None:
    message = f"{where}: found {found}, expected a run record; it is left out"
    warnings.warn(message, DamagedRecordWarning, stacklevel=2)

"""Witnesses of a table: plans, allocations and certificates of its rows, in one file beside them.

``NAME/witnesses.jsonl.xz`` has a run record on each line, in the order of problem, instance and method. Its
``plan`` is the plan or the allocation itself, not the name of a file, and ``document`` in its ``certificate``
is the certificate. A plan that is too large for the file is left out: ``made`` then says how it is made again
(method, parameters, seed, threads, time limit), and ``plan_sha256`` is the hash of its canonical JSON.

Lists of objects with the same keys are kept by column, and lists of integers by their differences, since so
they compress best; `packed` and `unpacked` are inverse.

Examples
--------
>>> rows = [{"op": 4, "start": 0}, {"op": 5, "start": 10}, {"op": 6, "start": 20}]
>>> packed(rows)
{'%rows': ['op', 'start'], '%of': [{'%steps': [4, 1, 1]}, {'%steps': [0, 10, 10]}]}
>>> unpacked(packed(rows)) == rows
True
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import platform
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from ...instances.formats.strict_json import parse_json
from ...models.errors import InstanceError
from ...models.files import write_whole

WITNESSES = "witnesses.jsonl.xz"
LARGEST = 400_000
"""Bytes of a file of witnesses: larger plans are made again instead."""
LARGEST_PLAN = 40_000
"""Bytes of one witness in it."""

KEPT = (
    *("instance", "instance_sha256", "problem", "method", "status", "objective", "bound", "proof"),
    *("bound_kind", "verified", "seconds", "limits", "version", "started", "machine", "by"),
)
"""What a witness says of its run."""

_ROWS, _OF, _STEPS = "%rows", "%of", "%steps"


def packed(value: Any) -> Any:
    """Return JSON values with their tables by column and their integers by differences."""
    if isinstance(value, dict):
        return {key: packed(item) for key, item in value.items()}
    if not isinstance(value, list) or len(value) < 3:
        return [packed(item) for item in value] if isinstance(value, list) else value
    if all(type(item) is int for item in value):
        return {_STEPS: [value[0], *(b - a for a, b in pairwise(value))]}
    keys = list(value[0]) if isinstance(value[0], dict) else []
    if keys and all(isinstance(item, dict) and list(item) == keys for item in value):
        return {_ROWS: keys, _OF: [packed([item[key] for item in value]) for key in keys]}
    return [packed(item) for item in value]


def unpacked(value: Any) -> Any:
    """Return what `packed` was given."""
    if isinstance(value, list):
        return [unpacked(item) if isinstance(item, (list, dict)) else item for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_STEPS}:
        return list(accumulate(value[_STEPS]))
    if value.keys() == {_ROWS, _OF}:
        columns = [unpacked(column) for column in value[_OF]]
        return [dict(zip(value[_ROWS], cells, strict=True)) for cells in zip(*columns, strict=True)]
    return {key: unpacked(item) for key, item in value.items()}


def witness_of(
    record: Mapping[str, Any], plan: dict[str, Any], proof: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what is kept of a run record, with its plan and its certificate."""
    found = {key: record[key] for key in KEPT if key in record}
    machine = found.get("machine", {"cores": os.cpu_count(), "kind": platform.machine()})
    found["machine"] = {key: value for key, value in machine.items() if key != "host"}
    for answer in (plan, proof or {}):
        for about in ("graph", "buffers", "network"):
            if about in answer:
                answer[about]["source"] = None
    return {**found, "plan": plan, "certificate": None if proof is None else {"document": proof}}


def write_witnesses(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of witnesses; the same records give the same bytes."""
    lines = [
        json.dumps(packed(dict(record)), separators=(",", ":"), ensure_ascii=False) for record in records
    ]
    write_whole(path, lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME))


def read_witnesses(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file of witnesses.

    Raises
    ------
    InstanceError
        If it cannot be read or is no such file.
    """
    try:
        lines = lzma.decompress(path.read_bytes()).splitlines()
        witnesses = [unpacked(parse_json(line, f"{path}, line {i}")) for i, line in enumerate(lines, start=1)]
    except (OSError, lzma.LZMAError, TypeError, ValueError) as error:
        raise InstanceError(f"{path}: found no file of witnesses ({error})") from None
    for i, record in enumerate(witnesses, start=1):
        if not isinstance(record, dict) or not (isinstance(record.get("plan"), dict) or "made" in record):
            raise InstanceError(
                f"{path}, line {i}: found no plan and not how it is made, expected one of them"
            )
    return witnesses


def plan_hash(plan: Mapping[str, Any]) -> str:
    """Return the hash of a plan's or an allocation's JSON, what it was loaded from left out."""
    said = {key: value for key, value in plan.items() if key not in ("graph", "buffers", "claim")}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

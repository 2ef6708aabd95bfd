"""The folder of a small experiment, made from real solves, and ways to falsify it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide import Peak, load, solve
from lowtide.instances import write_plan
from lowtide.models.result import Result

Record = dict[str, Any]


def run(
    folder: Path,
    spec: str,
    method: str = "greedy",
    *,
    name: str | None = None,
    seed: int = 0,
    keep_plan: bool = True,
    change: Callable[[Result], Result] = lambda result: result,
    **changes: Any,
) -> Record:
    """Solve, write record and plan as a finished run has them, and return the record.

    `change` sees the result before it is written, `changes` are the record's last word.
    """
    graph = load(spec)
    result = change(solve(Peak(graph), method, time_limit=5, seed=seed, threads=1))
    name = name or hashlib.sha256(f"{spec} {method} {seed}".encode()).hexdigest()[:16]
    plan = f"plans/{name[:2]}/{name}.json.gz"
    if keep_plan and result.plan is not None:
        (folder / plan).parent.mkdir(parents=True, exist_ok=True)
        write_plan(replace(result.plan, graph_source=spec), folder / plan)
    seconds = {"load": 0.01, "build": None, **result.seconds, "total": 0.5}
    record = {
        "name": name,
        **result.record(plan if keep_plan and result.plan is not None else None),
        "unit": "bytes",
        "seconds": seconds,
        "spec": spec,
        "instance_sha256": graph.sha256,
        "parameters": {},
        "seed": seed,
        "limits": {"seconds": 10, "memory": 2**32, "threads": 1},
        "version": "0.1.0",
        "source_hash": "0123456789abcdef",
        "git_commit": None,
        "machine": {"host": "host", "cpu": "a processor", "cores": 2, "memory": 2**33, "load": 0.5},
        "cpu_seconds": 0.4,
        "peak_rss": 200 * 2**20,
        "killed_by": None,
        "returncode": 0,
        "started": "2026-11-20T10:00:00.000Z",
        "log": None,
        **changes,
    }
    write(folder, record)
    return record


def write(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write a record to its place in an experiment's folder."""
    name: str = record["name"]
    path = folder / "records" / name[:2] / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def proved(result: Result) -> Result:
    """Return the result as an exact method would have it that proved the objective."""
    from lowtide.models.result import Status

    return replace(result, status=Status.OPTIMAL, bound=result.objective, proof="exact")

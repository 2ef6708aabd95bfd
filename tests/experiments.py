"""The folder of a small experiment, made from real solves, and ways to falsify it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide import solve
from lowtide.instances import load_problem, write_answer
from lowtide.models.result import Result

Record = dict[str, Any]


def run(
    folder: Path,
    spec: str,
    method: str = "greedy",
    *,
    problem: str = "peak",
    name: str | None = None,
    seed: int = 0,
    keep_plan: bool = True,
    change: Callable[[Result], Result] = lambda result: result,
    **changes: Any,
) -> Record:
    """Solve, write record and plan (or allocation) as a finished run has them, and return the record.

    `change` sees the result before it is written, `changes` are the record's last word.
    """
    stated = load_problem(problem, spec)
    result = change(solve(stated, method, time_limit=None, seed=seed, threads=1))
    words = f"{spec} {method} {seed}" if problem == "peak" else f"{problem} {spec} {method} {seed}"
    name = name or hashlib.sha256(words.encode()).hexdigest()[:16]
    keep_plan = keep_plan and (result.plan is not None or result.allocation is not None)
    plan = f"plans/{name[:2]}/{name}.json.gz"
    if keep_plan:
        (folder / plan).parent.mkdir(parents=True, exist_ok=True)
        write_answer(result, folder / plan, source=spec)
    seconds = {"load": 0.01, "build": None, **result.seconds, "total": 0.5}
    record = {
        "name": name,
        **result.record(plan if keep_plan else None),
        "unit": "bytes",
        "seconds": seconds,
        "trace": [[0.001 * (k + 1), *point[1:]] for k, point in enumerate(result.record()["trace"])],
        "spec": spec,
        "instance_sha256": stated.instance.sha256,
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

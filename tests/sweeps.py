"""Made-up experiments whose methods differ as real ones do: proofs, time-outs, crashes, heuristics."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

METHODS: dict[str, tuple[float, float]] = {
    # speed of proofs (0: a heuristic, it proves nothing), most by which its answers are too high
    "auto": (3.0, 0.002),
    "cpsat": (1.0, 0.01),
    "milp": (0.25, 0.05),
    "beam": (0.0, 0.02),
    "greedy": (0.0, 0.12),
}
MACHINE = {"host": "node1", "cpu": "Xeon 6 @ 2.4 GHz", "cores": 2, "memory": 2**34, "load": 0.31}


def record(
    instance: str = "chain",
    method: str = "greedy",
    *,
    status: str = "feasible",
    objective: int | None = None,
    bound: int | None = None,
    seconds: float | None = None,
    limit: float | None = 60.0,
    seed: int = 1,
    **others: Any,
) -> dict[str, Any]:
    """Return one record; what is not given is as a run would leave it."""
    gap: float | None = None
    if objective is not None and bound is not None:
        gap = 0.0 if objective == bound else (objective - bound) / objective
    values: dict[str, Any] = {
        "problem": "peak",
        "method": method,
        "graph": instance,
        "unit": None if objective is None else "bytes",
        "status": status,
        "objective": objective,
        "bound": bound,
        "gap": gap,
        "reason": None,
        "proof": None if bound is None else "exact",
        "verified": objective is not None,
        "detail": "",
        "seconds": {
            "load": 0.01,
            "build": None,
            "solve": seconds,
            "verify": 0.001,
            "total": (seconds or 0) + 0.02,
        },
        "trace": [] if objective is None else [[(seconds or 0) / 2, objective, bound]],
        "certificate": None,
        "versions": {"lowtide": "0.1.0", "python": "3.11.7"},
        "plan": None,
        "instance": instance,
        "spec": instance,
        "instance_sha256": hashlib.sha256(instance.encode()).hexdigest(),
        "parameters": {},
        "seed": seed,
        "limits": {"seconds": limit, "memory": 2**32, "threads": 1},
        "version": "0.1.0",
        "source_hash": "0123456789abcdef",
        "git_commit": None,
        "machine": MACHINE,
        "cpu_seconds": seconds,
        "peak_rss": 90_000_000,
        "killed_by": None,
        "returncode": 0,
        "started": "2026-01-01T00:00:00.000Z",
    }
    values |= others
    name = _name(values)
    return {"name": name, **values, "log": f"logs/{name[:2]}/{name}.log"}


def _name(values: Mapping[str, Any]) -> str:
    keys = ("instance_sha256", "problem", "method", "parameters", "seed", "limits", "version", "source_hash")
    text = json.dumps([values[key] for key in keys], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sweep(
    instances: int = 12,
    methods: Iterable[str] = tuple(METHODS),
    seeds: Iterable[int] = (1, 2),
    limit: float = 60.0,
    trace: int = 12,
) -> list[dict[str, Any]]:
    """Return the records of an experiment; the same arguments give the same records."""
    found = []
    for i in range(instances):
        rng = Random(i)
        best, hardness = rng.randint(10**6, 10**9), rng.lognormvariate(1.5, 2.6)
        for method in methods:
            for seed in seeds:
                for width in (16, 64) if method == "beam" else (None,):
                    noise = Random(f"{i} {method} {seed} {width}")
                    found.append(_run(noise, f"net-{i}", method, seed, width, best, hardness, limit, trace))
    return found


def _run(
    rng: Random,
    instance: str,
    method: str,
    seed: int,
    width: int | None,
    best: int,
    hardness: float,
    limit: float,
    trace: int,
) -> dict[str, Any]:
    speed, loss = METHODS[method]
    common: dict[str, Any] = {
        "seed": seed,
        "limit": limit,
        "parameters": {} if width is None else {"width": width},
    }
    if not speed:
        used = round(0.02 * hardness**0.5 * (width or 1) / 16, 6)
        value = round(best * (1 + loss * rng.random() * (4 / (width or 4)) ** 0.5))
        return record(instance, method, objective=value, seconds=used, trace=[[used, value, None]], **common)
    if rng.random() < 0.03:
        return record(instance, method, status="failed", reason="crash", killed_by="signal 11", **common)
    needed = round(hardness / speed * rng.lognormvariate(0, 0.4), 6)
    if needed <= limit:
        points = _descent(rng, best, best, needed, trace)
        proved: dict[str, Any] = {"status": "optimal", "objective": best, "bound": best, "trace": points}
        return record(instance, method, seconds=needed, **proved, **common)
    if needed > 20 * limit:
        return record(instance, method, status="unknown", reason="time", killed_by="time", **common)
    value = round(best * (1 + loss * rng.random()))
    bound = round(best * (1 - min(0.5, 0.04 * math.log(needed / limit))))
    points = _descent(rng, value, bound, limit, trace)
    stopped: dict[str, Any] = {"objective": value, "bound": bound, "reason": "time", "trace": points}
    return record(instance, method, seconds=limit, **stopped, **common)


def _descent(rng: Random, value: int, bound: int, end: float, count: int) -> list[list[float | int | None]]:
    times = [*sorted(end * rng.random() ** 3 for _ in range(count - 1)), end]
    steps: list[list[float | int | None]] = []
    for k, time in enumerate(times):
        left = (count - 1 - k) / count
        steps.append([round(time, 6), round(value * (1 + 0.3 * left**2)), round(bound * (1 - 0.4 * left))])
    return steps


def write_experiment(folder: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write the records as an experiment's folder holds them; return the folder."""
    for values in records:
        path = folder / "records" / values["name"][:2] / f"{values['name']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values) + "\n")
    return folder

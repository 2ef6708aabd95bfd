"""Realistic records of runs, without running anything: for tests of what reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from lowtide.results.sweeps.record import Usage, complete, unanswered
from lowtide.results.sweeps.runspec import Limits, RunSpec, source_hash

METHODS = ("greedy", "auto", "cpsat", "milp")
EXACT = METHODS[1:]


def random_records(
    count: int, *, seed: int = 0, methods: tuple[str, ...] = METHODS, instances: int | None = None
) -> Iterator[tuple[RunSpec, dict[str, Any]]]:
    """Yield runs and records: instances x methods x seeds, with every status and kind of end.

    All is consistent: no bound above an objective of the same instance, nothing proved that is wrong.
    """
    source = random.Random(seed)
    instances = instances or max(1, count // (2 * len(methods)))
    known: dict[int, tuple[int, int]] = {}
    for i in range(count):
        instance = i // len(methods) % instances
        method = methods[i % len(methods)]
        if instance not in known:
            optimum = source.randrange(10**6, 10**10)
            known[instance] = (optimum, source.choice([10, 100, 1000]))
        run = RunSpec(
            instance=f"gen:layered?n={known[instance][1]},seed={instance}",
            instance_sha256=f"{instance:064x}",
            problem="peak",
            method=method,
            parameters={"width": 16 * (1 + i % 3)} if method == "greedy" else {},
            seed=i // (len(methods) * instances),
            limits=Limits(seconds=10, memory=4 << 30, threads=1),
            source_hash=source_hash("peak", "greedy"),
        )
        yield run, random_record(run, known[instance][0], source)


def random_record(run: RunSpec, optimum: int, source: random.Random) -> dict[str, Any]:
    """Return a record of a run on an instance of a known optimum."""
    kinds = ["feasible"] * 9 + ["killed"]
    if run.method in EXACT:
        kinds = ["optimal"] * 6 + ["feasible"] * 3 + ["time", "killed", "crash", "memory"]
    kind = source.choice(kinds)
    spent = min(10.0, 0.01 + source.expovariate(0.3))
    start = Usage(started="2026-01-02T03:04:05.678Z", load=1.25, total=spent + 0.4, returncode=0)
    found = unanswered(run, "unknown", None, "")
    found |= {"graph": run.instance.removeprefix("gen:"), "unit": "bytes"}
    found["seconds"] = {"load": round(source.random() / 10, 6)}
    log = f"logs/{run.name[:2]}/{run.name}.log"
    if kind in ("optimal", "feasible"):
        objective = optimum if kind == "optimal" else optimum + source.randrange(optimum // 3)
        bound: int | None = optimum if kind == "optimal" else optimum - source.randrange(optimum // 4) - 1
        bound = bound if run.method in EXACT else None
        found |= {
            "status": kind,
            "objective": objective,
            "bound": bound,
            "gap": None if bound is None else (objective - bound) / objective,
            "proof": None if bound is None else "floating" if run.method == "milp" else "exact",
            "verified": True,
            "reason": "time" if kind == "feasible" and run.method in EXACT else None,
            "trace": random_trace(objective, bound, spent, source),
        }
        found["seconds"] |= {"solve": round(spent, 6), "verify": 0.012}
    elif kind == "time":
        found |= {"reason": "time"}
        found["seconds"] |= {"solve": 10.0, "verify": 0.0}
    else:
        code = {"killed": "time", "memory": "memory", "crash": "signal 11"}[kind]
        found |= {"detail": f"killed ({code})", "reason": "crash" if kind == "crash" else code}
        found |= {"status": "failed"} if kind == "crash" else {}
        start = Usage(
            started=start.started,
            load=1.25,
            total=spent + 20,
            killed_by=code,
            returncode=-11 if kind == "crash" else -9,
        )
    values = {"cpu_seconds": round(spent, 6), "peak_rss": source.randrange(10**8, 10**9)}
    return {**complete(run, found, start, log), **values}


def random_trace(objective: int, bound: int | None, spent: float, source: random.Random) -> list[Any]:
    """Return how incumbent and bound approached their last values."""
    points: list[Any] = []
    for step in range(source.randrange(1, 8), -1, -1):
        seconds = round(spent / 2**step, 6)
        low = None if bound is None else bound - step * (bound // 10)
        points.append([seconds, objective + step * (objective // 10), low])
    return points

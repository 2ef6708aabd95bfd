"""How long `solve` takes for its time limit: every problem, from 100 to 100,000 ops, limits from 0.05 to 5 s.

Each row is a process of its own, one solver thread, kernels compiled before; its seconds are those of
`lowtide.solve`, from call to return, so with the lowering and the verifier's judgement; loading is not
counted. Bounds on the memory are midway between the op that needs most and the reference order's peak. A row
half a minute beyond its limit is ended.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...tables.spec import Column, Fields, Row, TableSpec
from ..running import Case, apart, say

LIMIT, LIMITS, ALL = 1, (0.05, 1, 5), 10_000
"""Seconds; all limits for graphs of so many ops."""

PATIENCE = 30
"""Seconds beyond a limit after which a row is ended."""

ALLOWED = "N + 1 s + 5 %"
"""What a limit of N s is to be kept to."""

CHAIN, TREE, RANDWIRE = "gen:chain?n={n}", "gen:intree?n={n}&seed=1", "gen:randwire?n={n}&seed=1"
NETWORK = "catalogue:gpt2-small-train"

GRAPHS = (
    *((TREE, n) for n in (1000, 10_000, 100_000)),
    *((RANDWIRE, n) for n in (100, 1000, 10_000, 100_000)),
    (CHAIN, 100_000),
    (NETWORK, 694),
)
FEWER = ((RANDWIRE, 10_000), (CHAIN, 100_000))

FURTHER: dict[str, tuple[str, tuple[float, ...], tuple[str, ...]]] = {
    "recompute": (RANDWIRE.format(n=5500), (LIMIT, 10), ("auto", "tw-remat")),
    "arena": (RANDWIRE.format(n=20_000), (LIMIT,), ("auto", "two-step")),
    "streams": (RANDWIRE.format(n=20_000), (LIMIT,), ("auto",)),
    "distributed": (RANDWIRE.format(n=20_000), (LIMIT,), ("auto", "heft")),
    "partition": (RANDWIRE.format(n=20_000), (LIMIT,), ("auto", "torchgpipe")),
    "hybrid": (RANDWIRE.format(n=20_000), (LIMIT,), ("auto", "equal")),
}
"""By problem one more graph, the limits and the methods there."""

OPTIONS = {
    "peak": "",
    "offsets": "",
    "placement": "machine=a100-40g-pcie3&device={memory}B",
    "makespan": "processors=4&memory={memory}",
    "parallel-memory": "",
    "memory-edges": "bound={memory}",
    "recompute": "memory={memory}B",
    "minio": "memory={memory}",
    "arena": "",
    "streams": "contention=half-serial",
    "distributed": "machine=v100x4-16g-nvlink",
    "partition": "processors=4&contiguous=no",
    "hybrid": "processors=8&micro=8",
}
"""What the question adds to a graph."""

METHODS: dict[str, tuple[str, ...]] = {
    "peak": ("auto", "greedy", "local-search", "cpsat"),
    "offsets": ("auto", "local-search", "search"),
    "placement": ("auto", "g10", "flashneuron", "slot-lp"),
    "makespan": ("auto", "list", "local-search", "lns"),
    "parallel-memory": ("auto", "branch"),
    "memory-edges": ("auto", "min-levels"),
    "recompute": ("auto", "eviction", "checkmate-rounding", "moccasin"),
    "minio": ("auto", "postorder"),
}
"""The first of each on all graphs, the others on fewer."""


def questions() -> Iterator[tuple[str, str, str, float]]:
    """Yield problem, method, graph and limit of every row."""
    for problem, (first, *others) in METHODS.items():
        for method in (first, *others):
            for template, n in GRAPHS if method == first else FEWER:
                spec = template.format(n=n)
                if problem == "minio" and not spec.startswith(("gen:intree", "gen:chain")):
                    continue  # trees alone
                for limit in LIMITS if method == first and n == ALL else (LIMIT,):
                    yield problem, method, spec, limit
    for problem, (spec, limits, methods) in FURTHER.items():
        yield from ((problem, method, spec, limit) for method in methods for limit in limits)


def row(problem: str, method: str, spec: str, limit: str) -> list[Row]:
    """Solve one question in this process; return what is measured of it."""
    import lowtide as lt

    from ....instances import load_problem
    from ....models.derived.memory import sequential_memory
    from ....models.lowering.buffers import buffers_from_plan
    from ....models.plan import Plan

    graph = lt.load(spec)
    memory = sequential_memory(graph)
    most = memory.peak(range(len(graph.ops)))
    least = max(sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) for op in graph.ops)
    if problem == "offsets":
        plan = Plan.from_order(graph, range(len(graph.ops)))
        question: Any = lt.Offsets(buffers_from_plan(graph, plan))
    else:
        more = OPTIONS[problem].format(memory=(least + most) // 2)
        spec += ("&" if "?" in spec else "?") + more if more else ""
        question = load_problem(problem, spec)
    del graph, memory
    wall, cpu = time.perf_counter(), time.process_time()
    result = lt.solve(question, method, time_limit=float(limit), threads=1)
    seconds = time.perf_counter() - wall
    cpu = time.process_time() - cpu
    return [{"spec": spec, "status": str(result.status), "seconds": seconds, "cpu": cpu}]


def cases() -> Iterator[Case]:
    """Yield a case for each row."""
    for problem, method, spec, limit in questions():
        name = f"{problem} {method} {spec} {limit:g}"
        yield Case(name, partial(measured, problem, method, spec, limit))


def measured(problem: str, method: str, spec: str, limit: float) -> list[Row]:
    """Return a row, from a process of its own."""
    begun, load = time.perf_counter(), os.getloadavg()[0]
    found: Row = {"spec": spec, "status": "ended", "seconds": None, "cpu": None}
    try:
        (found,) = apart("limits", problem, method, spec, str(limit), seconds=limit + PATIENCE)
    except subprocess.TimeoutExpired:
        found["seconds"] = time.perf_counter() - begun
    except subprocess.CalledProcessError as error:
        found["status"] = "refused"
        say(error.stderr.strip().rpartition("\n")[2])
    took, cpu = found["seconds"], found["cpu"]
    return [
        {
            "problem": problem,
            "method": method,
            "spec": found["spec"],
            "ops": int(spec.rpartition("n=")[2].partition("&")[0]) if "n=" in spec else 694,
            "limit": limit,
            "status": found["status"],
            "seconds": None if took is None else round(took, 2),
            "cpu": None if cpu is None else round(cpu, 2),
            "overrun": None if took is None else round(max(0.0, took - limit), 2),
            "load": round(load, 1),
            "cores": os.cpu_count(),
        }
    ]


def is_kept(row: Row, seconds: str = "seconds") -> bool:
    """Return whether a row took no more than is allowed."""
    return row[seconds] is not None and row[seconds] <= 1.05 * row["limit"] + 1


def _in_processor_seconds(group: list[Row]) -> float | None:
    """Return the greatest overrun in seconds of the processor; None if a row was ended."""
    if any(row["cpu"] is None for row in group):
        return None
    return max(0.0, *(float(row["cpu"] - row["limit"]) for row in group))


TABLE = TableSpec(
    (
        *(Column("problem"), Column("method"), Column("graph", "family"), Column("ops", kind=",")),
        Column("overrun", lambda group: max(row["overrun"] for row in group), ".2f"),
        Column("in processor seconds", _in_processor_seconds, ".2f", "ended"),
    ),
    groups=("problem", "method", "family", "ops"),
)


def _family(spec: str) -> str:
    """Return the generator or the entry of the catalogue that a specification names."""
    return spec.partition("?")[0].partition(":")[2]


def text(table: list[Row]) -> Fields:
    """Return the greatest overrun by problem, method and size, and what was kept."""
    measured = [row for row in table if row["status"] != "refused"]
    loads = [row["load"] for row in measured]
    planned = [problem for problem, *_ in questions()]
    missing = {p: planned.count(p) - sum(row["problem"] == p for row in table) for p in sorted({*planned})}
    rest = ", ".join(f"{count} of {problem}" for problem, count in missing.items() if count > 0)
    return {
        "limits": ", ".join(map(str, LIMITS)),
        "kept": sum(map(is_kept, measured)),
        "measured": len(measured),
        "kept_in_processor": sum(is_kept(row) or is_kept(row, "cpu") for row in measured),
        "cores": table[0]["cores"],
        "first": loads[0],
        "last": loads[-1],
        "most": max(loads),
        "table": TABLE.of({**row, "family": _family(row["spec"])} for row in measured),
        "missing": f"Not measured: {rest}." if rest else "",
    }

"""Which heuristic bounds parallel memory with the shortest critical path, and how often each fails.

Graphs of 40 ops from four families under both accountings; bounds at 0, 25, 50 and 75 % of the way from the
least sequential peak to the largest parallel memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import fmean

import lowtide as lt

from ...tables.spec import RIGHT, Column, Row, TableSpec
from ..running import Case

FAMILIES = (
    "gen:layered?layers=8&width=5",
    "gen:sp?n=40",
    "gen:randwire?n=40",
    "gen:tasks?n=40",
)
RULES = ("min-levels", "respect-order", "max-size", "max-min-size")
FRACTIONS = (0, 25, 50, 75)
"""Bounds in percent of the way from the least sequential peak to the most that any execution needs."""
SECONDS = 20.0
"""Time limit of each solve of the table, in seconds."""


def cases(*, seeds: int = 5) -> Iterator[Case]:
    """Yield a case for each graph; seeds are those of each family and accounting."""
    for family in FAMILIES:
        for accounting in ("coexist", "replace"):
            for seed in range(seeds):
                spec = f"{family}&seed={seed}&accounting={accounting}"
                yield Case(spec, partial(rows_of, spec))


def rows_of(spec: str) -> Iterator[Row]:
    """Yield a row for each bound and rule."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph), time_limit=SECONDS, threads=1).objective
    assert least is not None
    for row in bounded(spec, graph, least, FRACTIONS, SECONDS):
        del row["ops"], row["cpu_seconds"]
        yield row


def bounded(
    spec: str, graph: lt.Graph, least: int, percents: tuple[int, ...], seconds: float
) -> Iterator[Row]:
    """Yield a row for each bound between a peak and the most, and rule; ns, None where a rule failed."""
    most = lt.solve(lt.ParallelMemory(graph), "flow", threads=1).bound
    assert most is not None
    for percent in percents:
        bound = least + (most - least) * percent // 100
        for rule in RULES:
            began = time.process_time()
            result = lt.solve(lt.MemoryEdges(graph, bound), rule, time_limit=seconds, threads=1)
            yield {
                "graph": spec,
                "ops": len(graph.ops),
                "percent": percent,
                "bound": bound,
                "rule": rule,
                "status": str(result.status),
                "reason": result.reason,
                "edges": None if result.edges is None else len(result.edges),
                "critical_path": result.objective,
                "critical_path_without": result.bound,
                "cpu_seconds": round(time.process_time() - began, 1),
            }


def _fails(rule: str, group: list[Row]) -> str:
    """Return failures, how often the rule has the shortest path, and its mean over the shortest."""
    shortest: dict[str, int] = {}
    for row in group:
        if row["critical_path"]:
            shortest[row["graph"]] = min(
                row["critical_path"], shortest.get(row["graph"], row["critical_path"])
            )
    some = [row for row in group if row["rule"] == rule]
    ratios = [row["critical_path"] / shortest[row["graph"]] for row in some if row["critical_path"]]
    mean = f"{fmean(ratios):.3f}" if ratios else "-"
    return f"{len(some) - len(ratios)}, {sum(r == 1 for r in ratios)}, {mean}"


TABLE = TableSpec(
    (
        Column("bound", lambda group: f"{group[0]['percent']} %", RIGHT),
        Column("graphs", lambda group: len({row["graph"] for row in group}), "d"),
        *(Column(f"{rule}: fails, shortest, mean", partial(_fails, rule), RIGHT) for rule in RULES),
    ),
    groups=("percent",),
)

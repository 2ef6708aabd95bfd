"""What edges against too much memory do to a runtime that schedules dynamically, on real graphs.

The graphs are those of the catalogue, the bounds half of the way from the peak of a good order to the most
that a run without edges needed. The edges are the best of the four rules'; each row runs the graph as often
without and with them, with durations drawn for each run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import lowtide as lt

from ....solvers.parallel.runtime import simulate
from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

GRAPHS = ("aten/googlenet_tr", "aten/resnet50_tr", "aten/swin_t_in")
PROCESSORS = (None, 4)
SECONDS = 300.0
"""Time limit of each solve in seconds; the peak has a quarter."""
THREADS = 2
"""Threads of each solve, and of the runtime."""


def cases(*, runs: int = 1000) -> Iterator[Case]:
    """Yield a case for each graph; runs are those of the runtime, without and with the edges."""
    for name in GRAPHS:
        yield Case(name, partial(rows_of, name, runs))


def rows_of(name: str, runs: int) -> Iterator[Row]:
    """Yield a row for each number of processors; bytes and ns."""
    graph = lt.load(f"catalogue:{name}")
    least = lt.solve(lt.Peak(graph), time_limit=SECONDS / 4, threads=THREADS).objective
    assert least is not None
    for processors in PROCESSORS:
        most = lt.solve(lt.ParallelMemory(graph, processors), time_limit=SECONDS, threads=THREADS)
        before = simulate(graph, runs=runs, processors=processors)
        bound = (least + max(before)) // 2
        began = time.process_time()
        found = lt.solve(lt.MemoryEdges(graph, bound, processors), time_limit=SECONDS, threads=THREADS)
        seconds = time.process_time() - began
        edges = found.edges
        after = None if edges is None else simulate(graph, edges, runs=runs, processors=processors)
        yield {
            "graph": name,
            "ops": len(graph.ops),
            "processors": processors,
            "order": least,
            "most": most.objective,
            "most_status": str(most.status),
            "bound": bound,
            "runs": runs,
            "above_before": sum(peak > bound for peak in before),
            "most_before": max(before),
            "critical_path_before": found.bound,
            "cpu_seconds": round(seconds, 1),
            "edges": None if edges is None else len(edges),
            "above_after": None if after is None else sum(peak > bound for peak in after),
            "most_after": None if after is None else max(after),
            "critical_path": found.objective,
        }


def _share(key: str, row: Row) -> str | None:
    return None if row[key] is None else f"{100 * row[key] / row['runs']:.1f} %"


def _longer(row: Row) -> str | None:
    path = row["critical_path"]
    return None if path is None else f"x {path / row['critical_path_before']:.3f}"


TABLE = TableSpec(
    (
        *(Column("graph"), Column("ops", kind=","), Column("processors", kind="d", missing="any")),
        Column("worst moment", lambda row: row["most"] / row["order"], ".3f"),
        Column("worst run", lambda row: row["most_before"] / row["order"], ".3f"),
        Column("bound", lambda row: row["bound"] / row["order"], ".3f"),
        Column("above it before", partial(_share, "above_before"), RIGHT),
        Column("edges", kind="d", missing="none found"),
        Column("above it after", partial(_share, "above_after"), RIGHT, ""),
        *(Column("critical path", _longer, RIGHT, ""), Column("CPU s", "cpu_seconds", ".1f")),
    )
)


def text(table: list[Row]) -> Fields:
    """Return shares of runs above the bound, the edges and their price."""
    runs = sorted({row["runs"] for row in table})
    return {
        "runs": " or ".join(f"{n:,}" for n in runs),
        "table": TABLE.of(table),
    }
